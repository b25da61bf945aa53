/* Scores of search results: Sphinx's own, and more for a name that is a class, or that is spelled as it was asked for. */
var Scorer = {
  score: (result) => {
    const [, title, , descr, score, , kind] = result;
    if (kind !== "object") return score;
    const asked = (new URLSearchParams(window.location.search).get("q") || "").trim();
    const named = title === asked || title.split(".").pop() === asked;
    const whole = title.toLowerCase().split(".").pop() === asked.toLowerCase();
    return score + (named ? 6 : 0) + (whole && (descr || "").startsWith("Python class") ? 10 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
