// A box above each long table that hides the rows without its words.
const LONG = 60;
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table")) {
    const rows = [...table.querySelectorAll("tbody tr")];
    if (rows.length < LONG) {
      continue;
    }
    const box = document.createElement("div");
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
    box.append(input, told);
    table.before(box);
    show();
  }
});
