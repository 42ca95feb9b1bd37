// Ranks the results of the site's search; Sphinx puts this beside its search.
const MESSAGE_WORDS = 5; // a pasted error message has as many words, or more

var Scorer = {
  score: ([page, , , , score]) => {
    const query = new URLSearchParams(window.location.search).get("q") || "";
    const isMessage = query.trim().split(/\s+/).length >= MESSAGE_WORDS;
    if (page === "docs/error_messages") return score + (isMessage ? 20 : 0);
    if (page === "CHANGELOG") return score - 20;
    // A guide stands before a list, a recipe and a lesson of the same score.
    const isGuide = /^docs\/(?!config_keys|command_line|index|api)/.test(page);
    return score + (isGuide ? 1 : 0);
  },
  // What Sphinx has by default.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
