const isSection = (value) => typeof value === "object" && value !== null && !Array.isArray(value)

/** Settings over defaults, as a new object. */
export const merge = (defaults, settings) => {
  const merged = { ...defaults }
  for (const key of Object.keys(settings)) {
    if (key === "__proto__" || key === "constructor" || key === "prototype") continue
    merged[key] = isSection(settings[key]) && isSection(merged[key]) ? merge(merged[key], settings[key]) : settings[key]
  }
  return merged
}
