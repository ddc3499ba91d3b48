/** Parameters of a query string. */
export const parse = (query) => {
  const found = {}
  for (const pair of query.replace(/^\?/, "").split("&")) {
    const [name, value] = pair.split("=")
    if (value !== undefined) found[name] = decodeURIComponent(value)
  }
  return found
}
