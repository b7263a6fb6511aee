(function () {
  "use strict";
  document.documentElement.classList.add("js");
  var form = document.querySelector("form.filters");
  var rows = Array.prototype.slice.call(document.querySelectorAll("[data-verdict]"));
  var groups = Array.prototype.slice.call(document.querySelectorAll("[data-holds]"));

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
        (!level || (" " + data.level.toLowerCase() + " ").indexOf(" " + level + " ") >= 0) &&
        (!clause || data.clause.toLowerCase().indexOf(clause) >= 0);
      if (fits && words.length) {
        search = row.words || (row.words = (data.search + " " + row.textContent).toLowerCase());
        fits = words.every(function (word) { return search.indexOf(word) >= 0; });
      }
      row.hidden = !fits;
      all[data.kind] += 1;
      if (fits) { shown[data.kind] += 1; }
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
    var target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
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
  document.addEventListener("click", function (event) {
    var button = event.target.closest ? event.target.closest("[data-open]") : null;
    if (!button) { return; }
    document.querySelectorAll("details.case:not([hidden])").forEach(function (one) { one.open = button.dataset.open === "yes"; });
  });
  window.addEventListener("hashchange", follow);
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details.case.opened").forEach(function (one) { one.open = true; });
  });
  follow();
})();
