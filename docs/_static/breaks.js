// Long names in tables may break where their words end, not anywhere: a phone is
// narrow.
document.addEventListener("DOMContentLoaded", () => {
  const ends = /(?<=[_./:])(?=[A-Za-z_])|(?<=[a-z]{3})(?=[A-Z])/;
  for (const word of document.querySelectorAll("td code .pre")) {
    const parts = word.textContent.split(ends);
    word.replaceChildren(
      ...parts.flatMap((part, i) =>
        i ? [document.createElement("wbr"), part] : [part]
      )
    );
  }
});
