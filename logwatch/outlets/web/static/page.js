// Keeps the status page live: swaps in the parts that the server sends, and counts ages up in between.
"use strict";

(() => {
  const live = document.getElementById("live");
  let ahead = Number(document.body.dataset.now) - Date.now() / 1000; // the server's clock against ours

  const say = (text, look) => {
    live.textContent = text;
    live.className = `live ${look}`;
  };

  const ages = () => {
    for (const each of document.querySelectorAll("[data-since]")) {
      const age = Math.max(0, Date.now() / 1000 + ahead - Number(each.dataset.since));
      const [count, unit] = age < 90 ? [age, "s"] : age < 5400 ? [age / 60, "min"] : age < 129600 ? [age / 3600, "h"] : [age / 86400, "days"];
      each.textContent = `read ${Math.round(count)} ${unit} ago`;
    }
  };

  const swap = (id, markup) => {
    const part = document.getElementById(id);
    if (part === null) return;
    const open = [...part.querySelectorAll("details[open]")].map((each) => each.id);
    const offsets = [...part.querySelectorAll(".scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
    const held = part.contains(document.activeElement) && document.activeElement !== part;
    const place = held ? [...part.querySelectorAll("a, summary, .scroll")].indexOf(document.activeElement) : -1;
    part.innerHTML = markup;
    for (const each of part.querySelectorAll("details")) each.open = open.includes(each.id);
    part.querySelectorAll(".scroll").forEach((each, n) => {
      if (offsets[n]) [each.scrollLeft, each.scrollTop] = offsets[n];
    });
    if (place >= 0) part.querySelectorAll("a, summary, .scroll")[place]?.focus({ preventScroll: true });
  };

  const show = (event) => {
    const update = JSON.parse(event.data);
    ahead = update.now - Date.now() / 1000;
    document.title = update.title;
    document.body.className = update.look;
    document.getElementById("icon").href = `static/${update.look}.svg`;
    for (const [id, markup] of Object.entries(update.parts)) swap(id, markup);
    ages();
  };

  const source = new EventSource("events");
  source.addEventListener("open", () => say("Live", "on"));
  source.addEventListener("error", () => say("Connection lost, trying again", "off"));
  source.addEventListener("message", show);
  say("Connecting", "");
  ages();
  setInterval(ages, 1000);
})();
