"""What is shown and written of a run: terminal, HTML, JUnit XML, badge, matrix."""
