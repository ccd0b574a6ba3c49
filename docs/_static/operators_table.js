// A box above each table of operators that hides the rows without its words.
document.addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll(".operators-table")) {
    const rows = [...box.querySelectorAll("tbody tr")];
    const input = document.createElement("input");
    const told = document.createElement("output");
    input.type = "search";
    input.placeholder = "words a row must have";
    input.setAttribute("aria-label", "words that a row must have");
    const show = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += !row.hidden;
      }
      told.textContent = ` ${shown} of ${rows.length}`;
    };
    input.addEventListener("input", show);
    box.prepend(input, told);
    show();
  }
});
