import { escape } from "./escape.js"

/** A template with the values of its names; those in three braces are not escaped. */
export const render = (template, values) =>
  template.replace(/\{\{\{(\w+)\}\}\}|\{\{(\w+)\}\}/g, (_, raw, name) =>
    raw === undefined ? escape(String(values[name] ?? "")) : String(values[raw] ?? ""))
