/** Rows of a CSV text. */
export const rows = (text) =>
  text.split("\n").filter((line) => line !== "").map((line) => line.split(","))
