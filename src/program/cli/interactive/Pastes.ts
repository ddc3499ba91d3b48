/**
 * Pasted text of many lines, folded into a mark in the typed line: `[paste #1, 200 lines]`. The text replaces the mark
 * when the line is sent. An edited mark is treated as ordinary text. Pure.
 *
 * Source: `hermes-product.md` §1.8.
 */

/** Maximum number of lines of a paste that is not folded. */
const mostLines = 10

/** Maximum length of a paste, in characters. */
export const mostCharacters = 1_048_576

const formatMark = (pastes: ReadonlyArray<string>, index: number): string =>
  `[paste #${index + 1}, ${(pastes[index] ?? "").split("\n").length} lines]`

/**
 * Folds a long paste into a mark. Returns the text to insert into the line, and the pastes, including the new one if it
 * was folded.
 */
export const fold = (
  pastes: ReadonlyArray<string>,
  text: string
): { readonly text: string; readonly pastes: ReadonlyArray<string> } => {
  if (text.split("\n", mostLines + 1).length <= mostLines) return { text, pastes }
  const all = [...pastes, text]
  return { text: formatMark(all, all.length - 1), pastes: all }
}

/** Returns the line with its marks replaced by the pasted text. */
export const expand = (line: string, pastes: ReadonlyArray<string>): string => {
  const texts = new Map(pastes.map((text, index) => [formatMark(pastes, index), text]))
  return line.replaceAll(/\[paste #\d+, \d+ lines\]/g, (mark) => texts.get(mark) ?? mark)
}

/** Returns the length of the mark that ends or begins at an offset; 0 if there is no mark. */
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
