// Violations that axe-core finds.
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
  .then(({violations, passes}) => done({passes: passes.length, violations: violations.map(({id, impact, help, nodes}) =>
    ({id, impact, help, nodes: nodes.map(({html, failureSummary}) => html.slice(0, 200) + ': ' + failureSummary).slice(0, 5)}))}))
  .catch(error => done({error: String(error)}));
