/** Parameters of a query string; a name that stands in it several times has a list. */
export const parse = (query) => {
  const found = Object.create(null)
  for (const [name, value] of new URLSearchParams(query)) {
    found[name] = name in found ? [found[name], value].flat() : value
  }
  return found
}
