(function () {
  "use strict";
  document.documentElement.classList.add("js");
  var form = document.querySelector("form.filters");
  var rows = Array.prototype.slice.call(document.querySelectorAll("[data-verdict]"));
  var groups = Array.prototype.slice.call(document.querySelectorAll("[data-holds]"));

  var pieces = {};

  function unpack() {
    var packed = document.getElementById("packed");
    if (!packed) { return Promise.resolve(); }
    if (typeof DecompressionStream === "undefined") {
      document.querySelectorAll(".unpacking").forEach(function (one) { one.hidden = false; });
      return Promise.resolve();
    }
    var text = atob(packed.textContent), bytes = new Uint8Array(text.length);
    for (var place = 0; place < text.length; place += 1) { bytes[place] = text.charCodeAt(place); }
    var stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text().then(function (lines) {
      lines.split("\n").forEach(function (line) {
        var piece = line && JSON.parse(line);
        if (piece) { pieces[piece[0]] = piece[1]; }
      });
    });
  }

  function fill(one) {
    if (!pieces[one.id] || one.querySelector(".in")) { return; }
    var inside = document.createElement("div");
    inside.className = "in";
    inside.innerHTML = pieces[one.id];
    one.appendChild(inside);
  }

  function wordsOf(row) {
    var words = row.textContent;
    if (row.dataset.kind === "case") {
      return (words + " " + (pieces[row.id] || "").replace(/<[^>]*>/g, " ")).toLowerCase();
    }
    row.querySelectorAll("a.cs").forEach(function (link) {
      var entry = document.getElementById(link.hash.slice(1));
      words += " " + (entry ? entry.firstElementChild.textContent : "");
    });
    return words.toLowerCase();
  }

  var cited = {};
  rows.forEach(function (row) {
    row.querySelectorAll("a.cs").forEach(function (link) {
      (cited[link.hash.slice(1)] = cited[link.hash.slice(1)] || []).push(row);
    });
  });

  function clausesOf(row) {
    return row.dataset.kind === "clause" ? [row] : cited[row.id] || [];
  }

  function value(name) {
    var field = form && form.elements[name];
    return field ? field.value.trim().toLowerCase() : "";
  }

  function filter() {
    var verdict = value("verdict"), group = value("group"), level = value("level");
    var clause = value("clause"), words = value("text").split(/\s+/).filter(Boolean);
    var shown = { clause: 0, "case": 0 }, all = { clause: 0, "case": 0 };
    rows.forEach(function (row) {
      var data = row.dataset, search = "";
      var fits = (!verdict || data.verdict.toLowerCase() === verdict) &&
        (!group || data.group === group) &&
        (!level || clausesOf(row).some(function (one) { return one.dataset.level.toLowerCase() === level; })) &&
        (!clause || clausesOf(row).some(function (one) { return one.cells[2].textContent.toLowerCase().indexOf(clause) >= 0; }));
      if (fits && words.length) {
        search = row.words || (row.words = wordsOf(row));
        fits = words.every(function (word) { return search.indexOf(word) >= 0; });
      }
      row.hidden = !fits;
      all[data.kind] += Number(data.count || 1);
      if (fits) { shown[data.kind] += Number(data.count || 1); }
    });
    groups.forEach(function (holder) {
      holder.hidden = !holder.querySelector("[data-verdict]:not([hidden])");
    });
    if (form) {
      form.querySelector("output").textContent =
        shown.clause + " of " + all.clause + " clauses and " + shown["case"] + " of " + all["case"] + " cases shown";
    }
  }

  function follow() {
    var name = decodeURIComponent(location.hash.slice(1)), target = name && document.getElementById(name);
    if (!target) { return; }
    if (target.closest("[hidden]") && form) { form.reset(); filter(); }
    for (var place = target; place; place = place.parentElement) {
      if (place.tagName === "DETAILS") { place.open = true; }
    }
    target.scrollIntoView();
  }

  if (form) {
    form.addEventListener("input", filter);
    form.addEventListener("submit", function (event) { event.preventDefault(); });
    form.addEventListener("reset", function () { setTimeout(filter, 0); });
    filter();
  }
  document.addEventListener("toggle", function (event) {
    if (event.target.open && event.target.matches("details.case")) { fill(event.target); }
  }, true);
  document.addEventListener("click", function (event) {
    var copy = event.target.closest ? event.target.closest("[data-copy]") : null;
    if (copy) {
      var code = copy.parentElement.querySelector("code");
      getSelection().selectAllChildren(code);
      if (navigator.clipboard) { navigator.clipboard.writeText(code.textContent).catch(function () {}); }
    }
    var button = event.target.closest ? event.target.closest("[data-open]") : null;
    if (!button) { return; }
    document.querySelectorAll("details.case:not([hidden])").forEach(function (one) { one.open = button.dataset.open === "yes"; });
  });
  window.addEventListener("hashchange", follow);
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details.case.opened").forEach(function (one) { fill(one); one.open = true; });
  });
  unpack().then(function () {
    rows.forEach(function (row) { delete row.words; });
    document.querySelectorAll("details.case[open]").forEach(fill);
  });
  follow();
})();
