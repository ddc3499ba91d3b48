/** Rows of a CSV text. */
export const rows = (text) => {
  const found = []
  let row = []
  let cell = ""
  let isQuoted = false
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (isQuoted) {
      if (char !== '"') cell += char
      else if (text[at + 1] === '"') cell += text[++at]
      else isQuoted = false
    } else if (char === '"') isQuoted = true
    else if (char === "," || char === "\n") {
      row.push(cell)
      cell = ""
      if (char === "\n") {
        found.push(row)
        row = []
      }
    } else cell += char
  }
  if (cell !== "" || row.length > 0) found.push([...row, cell])
  return found.filter((cells) => cells.length > 1 || cells[0] !== "")
}
