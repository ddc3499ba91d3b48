/**
 * Pasted texts of many lines, folded to a mark in the line that is typed: `[paste #1, 200 lines]`. The text takes the
 * mark's place when the line is sent. A mark that is changed is a text like any other. Pure.
 *
 * Source: `hermes-product.md` §1.8.
 */

/** Lines up to which a paste stays as it is. */
const mostLines = 10

/** Characters of a paste at most. */
export const mostCharacters = 1_048_576

const formatMark = (pastes: ReadonlyArray<string>, index: number): string =>
  `[paste #${index + 1}, ${(pastes[index] ?? "").split("\n").length} lines]`

/** Folds a long paste into a mark. Returns the text for the line, and the pastes including a folded one. */
export const fold = (
  pastes: ReadonlyArray<string>,
  text: string
): { readonly text: string; readonly pastes: ReadonlyArray<string> } => {
  if (text.split("\n", mostLines + 1).length <= mostLines) return { text, pastes }
  const all = [...pastes, text]
  return { text: formatMark(all, all.length - 1), pastes: all }
}

/** Returns the line with its marks replaced by the pasted texts. */
export const expand = (line: string, pastes: ReadonlyArray<string>): string => {
  const texts = new Map(pastes.map((text, index) => [formatMark(pastes, index), text]))
  return line.replaceAll(/\[paste #\d+, \d+ lines\]/g, (mark) => texts.get(mark) ?? mark)
}

/** Returns the length of the mark that ends before an offset, or begins at it; 0 without such a mark. */
export const measureMark = (
  line: string,
  offset: number,
  side: "before" | "after",
  pastes: ReadonlyArray<string>
): number => {
  const found = pastes
    .map((_, index) => formatMark(pastes, index))
    .find((mark) => (side === "before" ? line.slice(0, offset).endsWith(mark) : line.startsWith(mark, offset)))
  return found?.length ?? 0
}
