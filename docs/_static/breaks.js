// A phone is narrow. Long names in tables may break where their words end, and a
// table of many columns has small letters (guide.css).
document.addEventListener("DOMContentLoaded", () => {
  const ends = /(?<=[_./:])(?=[A-Za-z_])|(?<=[a-z]{3})(?=[A-Z])/;
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
    table.classList.toggle("many-columns", table.rows[0].cells.length > 3);
  }
});
