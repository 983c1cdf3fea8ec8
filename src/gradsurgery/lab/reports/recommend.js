"use strict";

// The rule of recommend.py: for each method, the option with the lowest aux among those whose main is within the allowance.
// Returns for each method its best option, or null, and the sentence that describes it.
function chooseOptions(methods, allow) {
  return methods.map(({ options, beyond }) => {
    const within = options.filter((option) => option.excess <= allow);
    const best = within.reduce((lowest, option) => (lowest && lowest.aux <= option.aux ? lowest : option), null);
    if (!best) return { best, text: beyond };
    const certain = best.safe_excess !== null && best.safe_excess <= allow;
    return { best, text: certain ? best.text : `${best.text} (${best.caveat})` };
  }).sort((a, b) => (a.best ? a.best.aux : Infinity) - (b.best ? b.best.aux : Infinity) || 0);
}
