/** Settings over defaults. */
export const merge = (defaults, settings) => {
  for (const key in settings) {
    if (typeof settings[key] === "object" && typeof defaults[key] === "object") merge(defaults[key], settings[key])
    else defaults[key] = settings[key]
  }
  return defaults
}
