/** A template with the values of its names. */
export const render = (template, values) =>
  template.replace(/\{\{(\w+)\}\}/g, (_, name) => values[name])
