// A phone is narrow. Long names in tables may break where their words end, but not
// before a file's suffix. guide.css has small letters for a table of many columns, and
// keeps the lines of output whose columns are aligned by spaces.
document.addEventListener("DOMContentLoaded", () => {
  const ends =
    /(?<=[_/:])(?=[A-Za-z_])|(?<=\.)(?=[A-Za-z_])(?!(?:h|cpp|py|md|ipynb)\b)|(?<=[a-z]{3})(?=[A-Z])/;
  for (const word of document.querySelectorAll("td code .pre, td a, td a span")) {
    if (word.childElementCount) {
      continue; // its words are further in
    }
    const parts = word.textContent.split(ends);
    word.replaceChildren(
      ...parts.flatMap((part, i) =>
        i ? [document.createElement("wbr"), part] : [part]
      )
    );
  }
  for (const table of document.querySelectorAll("table")) {
    const columns = table.rows[0].cells.length;
    table.classList.toggle("many-columns", columns > 3);
    table.classList.toggle("matrix", columns > 6);
  }
  for (const block of document.querySelectorAll(".highlight-text, .highlight-console")) {
    const gaps = block.textContent.split("\n").filter((line) => /\S {2,}\S/.test(line));
    block.classList.toggle("aligned", gaps.length > 2);
  }
});
