"use strict";

// Draws every chart in the colours and the width of the page, and redraws it when the colour scheme
// changes. Expands rules, command lines and configurations for printing.
(() => {
  const specs = JSON.parse(document.getElementById("charts").textContent);
  const themes = JSON.parse(document.getElementById("themes").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function config() {
    const theme = dark.matches ? themes.dark : themes.light;
    const columns = document.body.clientWidth < 600 ? 2 : 6;
    return { ...theme, legend: { ...theme.legend, columns } };
  }

  async function draw() {
    const drawn = Object.entries(specs).map(([key, spec]) =>
      window.vegaEmbed(`#chart-${key}`, spec, {
        renderer: "svg",
        config: config(),
        actions: false,
      }),
    );
    await Promise.all(drawn);
    document.documentElement.dataset.drawn = String(drawn.length);
  }

  dark.addEventListener("change", draw);
  window.addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("main > details, .report-table details, .verdicts details")) folded.open = true;
  });
  draw();
})();
