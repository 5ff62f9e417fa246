// What pages do beside htmx: dialogs, keys, and the charts of the overview.
"use strict";

(() => {
  const dialog = document.getElementById("dialog");

  // Dialogs: a button is a link to a page that asks; here the question comes to where the button is.

  document.body.addEventListener("htmx:afterSwap", (event) => {
    if (event.target === dialog && !dialog.open) {
      dialog.showModal();
    }
  });

  document.body.addEventListener("htmx:responseError", (event) => {
    // What is typed stays where it is, even if nobody can say what would come of it.
    if (event.detail.elt.closest("[data-quiet]")) {
      return;
    }
    // Whatever is wrong, the page itself says it, or has people sign in.
    window.location.assign(event.detail.pathInfo.finalRequestPath);
  });

  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-close]")) {
      event.preventDefault();
      dialog.close();
    }
  });

  dialog.addEventListener("close", () => dialog.replaceChildren());

  // Keys: "/" goes to the filter, a space presses a button that is a link.

  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select");
    if (event.key === "/" && !isTyping && !dialog.open && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      const filter = document.querySelector("[data-filter]");
      if (filter) {
        filter.focus();
      } else {
        window.location.assign("/tasks");
      }
    }
    if (event.key === " " && event.target.matches("a[role=button]")) {
      event.preventDefault();
      event.target.click();
    }
  });

  // Charts

  const charts = document.getElementById("charts");
  if (charts === null || typeof uPlot === "undefined") {
    return;
  }

  const HEIGHT = 190;
  const SAMPLES_MAX = 360;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const samples = JSON.parse(charts.dataset.samples);
  let drawn = [];

  const data = (fields) => [samples.at, ...fields.map((field) => samples[field])];

  const axis = (size) => ({
    stroke: colour("--quiet"),
    grid: { stroke: colour("--rule"), width: 1 },
    ticks: { stroke: colour("--rule"), width: 1 },
    font: "11px system-ui, sans-serif",
    size,
  });

  const draw = (place) => {
    const fields = place.dataset.fields.split(" ");
    const names = place.dataset.names.split(" ");
    const options = {
      width: place.clientWidth,
      height: HEIGHT,
      cursor: { y: false },
      scales: { y: { range: (_plot, _low, high) => [0, Math.max(high * 1.1, 1)] } },
      axes: [axis(32), axis(48)],
      series: [
        { value: (_plot, at) => (at === null ? "–" : new Date(at * 1000).toLocaleTimeString()) },
        ...names.map((name, index) => ({
          label: name,
          stroke: colour(`--series-${index + 1}`),
          width: 1.75,
          // Told apart without colours as well.
          dash: [[], [7, 4], [2, 3]][index],
          points: { show: false },
          value: (_plot, value) => (value === null ? "–" : value.toLocaleString()),
        })),
      ],
    };
    return { place, fields, plot: new uPlot(options, data(fields), place) };
  };

  const drawAll = () => {
    drawn.forEach((one) => one.plot.destroy());
    drawn = [...charts.querySelectorAll(".chart")].map(draw);
  };

  const append = () => {
    const sample = JSON.parse(document.getElementById("sample").dataset.sample);
    if (sample.at.length === 0 || sample.at[0] <= (samples.at.at(-1) ?? 0)) {
      return;
    }
    for (const [field, values] of Object.entries(sample)) {
      samples[field] = [...samples[field], ...values].slice(-SAMPLES_MAX);
    }
    drawn.forEach((one) => one.plot.setData(data(one.fields)));
  };

  drawAll();
  document.body.addEventListener("htmx:sseMessage", append);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  window.addEventListener("resize", () => {
    drawn.forEach((one) => one.plot.setSize({ width: one.place.clientWidth, height: HEIGHT }));
  });
})();
