/**
 * The keys of vi for the text that is typed (`display.editing_mode: vi`). It begins in the insert mode, where keys do what they do without
 * it; Esc goes to the normal mode. Pure.
 *
 * **Details**
 *
 * | keys of the normal mode | what they do |
 * | --- | --- |
 * | `h` `l` `0` `^` `$` `w` `b` `e` | go; `j` and `k` through the lines and the history |
 * | `i` `a` `I` `A` `o` `O` | insert |
 * | `x` `X` `D` `C` `s` `S` `dd` `cc` | delete, and insert behind `C`, `s`, `S`, `cc` |
 * | `d`, `c` or `y` with a motion | delete, change, copy |
 * | `p` `P` `u` | put what was deleted or copied; undo |
 *
 * Enter sends in both modes. There are no counts, registers and marks; Ctrl+G opens an editor that has them.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Editor from "./Editor.ts"
import type { Key } from "./Keys.ts"

/** Mode of the keys, and what it needs. */
export interface ViState {
  readonly mode: "insert" | "normal"
  /** Operator that waits for its motion. */
  readonly operator: "" | "c" | "d" | "y"
  /** Texts before changes of the normal mode, the last one last. */
  readonly before: ReadonlyArray<Editor.State>
}

/** The mode in which a line begins. */
export const begin: ViState = { mode: "insert", operator: "", before: [] }

/** Result of a key; `applied` is undefined where it is one for the editor without vi. */
interface ViApplied {
  readonly vi: ViState
  readonly applied: Editor.Applied | undefined
}

const mostUndone = 100

const lineStart = ({ cursor, text }: Editor.State): number => text.lastIndexOf("\n", cursor - 1) + 1

const lineEnd = ({ cursor, text }: Editor.State): number => {
  const end = text.indexOf("\n", cursor)
  return end < 0 ? text.length : end
}

const lengthOf = (pattern: RegExp, text: string): number => pattern.exec(text)?.[0].length ?? 0

/** Places that motions lead to. */
const motions: ReadonlyMap<string, (state: Editor.State) => number> = new Map([
  ["h", (state) => Math.max(lineStart(state), Editor.press(state, "left").cursor)],
  ["l", (state) => Math.min(lineEnd(state), Editor.press(state, "right").cursor)],
  ["0", lineStart],
  ["^", (state) => lineStart(state) + lengthOf(/^[ \t]*/, state.text.slice(lineStart(state), lineEnd(state)))],
  ["$", lineEnd],
  ["w", ({ cursor, text }) => cursor + lengthOf(/^(?:[\p{L}\p{N}\p{M}_]+|[^\p{L}\p{N}\p{M}_\s]+)?\s*/u, text.slice(cursor))],
  ["b", ({ cursor, text }) => cursor - lengthOf(/(?:[\p{L}\p{N}\p{M}_]+|[^\p{L}\p{N}\p{M}_\s]+)?\s*$/u, text.slice(0, cursor))],
  ["e", ({ cursor, text }) => {
    const next = cursor + 1
    return next + Math.max(0, lengthOf(/^\s*(?:[\p{L}\p{N}\p{M}_]+|[^\p{L}\p{N}\p{M}_\s]+)?/u, text.slice(next)) - 1)
  }]
])

const none: Editor.Action = { _tag: "None" }

const cut = (state: Editor.State, from: number, to: number): Editor.State =>
  ({ ...state, text: state.text.slice(0, from) + state.text.slice(to), cursor: from, killed: state.text.slice(from, to), back: 0 })

const put = (state: Editor.State, at: number, text: string): Editor.State =>
  ({ ...state, text: state.text.slice(0, at) + text + state.text.slice(at), cursor: at + text.length, back: 0 })

/** Applies an operator to a range; copying leaves the text as it is. */
const operate = (operator: ViState["operator"], state: Editor.State, from: number, to: number): Editor.State =>
  operator === "y" ? { ...state, killed: state.text.slice(from, to), cursor: from } : cut(state, from, to)

type Changed = readonly [state: Editor.State, mode: ViState["mode"]]

/** Commands of one key. */
const commands: ReadonlyMap<string, (state: Editor.State) => Changed> = new Map<string, (state: Editor.State) => Changed>([
  ["i", (state) => [state, "insert"]],
  ["a", (state) => [{ ...state, cursor: Math.min(lineEnd(state), Editor.press(state, "right").cursor) }, "insert"]],
  ["I", (state) => [{ ...state, cursor: motions.get("^")?.(state) ?? 0 }, "insert"]],
  ["A", (state) => [{ ...state, cursor: lineEnd(state) }, "insert"]],
  ["o", (state) => [put(state, lineEnd(state), "\n"), "insert"]],
  ["O", (state) => [{ ...put(state, lineStart(state), "\n"), cursor: lineStart(state) }, "insert"]],
  ["x", (state) => [cut(state, state.cursor, motions.get("l")?.(state) ?? state.cursor), "normal"]],
  ["X", (state) => [cut(state, motions.get("h")?.(state) ?? state.cursor, state.cursor), "normal"]],
  ["s", (state) => [cut(state, state.cursor, motions.get("l")?.(state) ?? state.cursor), "insert"]],
  ["S", (state) => [cut(state, lineStart(state), lineEnd(state)), "insert"]],
  ["D", (state) => [cut(state, state.cursor, lineEnd(state)), "normal"]],
  ["C", (state) => [cut(state, state.cursor, lineEnd(state)), "insert"]],
  ["p", (state) => [put(state, Editor.press(state, "right").cursor, state.killed), "normal"]],
  ["P", (state) => [put(state, state.cursor, state.killed), "normal"]]
])

/** One typed character of the normal mode. */
const typed = (vi: ViState, state: Editor.State, char: string, history: ReadonlyArray<string>): readonly [ViState, Editor.State] => {
  const remembered = (after: Editor.State): ViState["before"] => after.text === state.text ? vi.before : [...vi.before, state].slice(-mostUndone)
  const { operator } = vi
  const motion = motions.get(char)?.(state)
  if (operator !== "") {
    const isLine = char === operator
    if (motion === undefined && !isLine) return [{ ...vi, operator: "" }, state]
    const [from, to] = isLine
      ? [lineStart(state), operator === "c" ? lineEnd(state) : Math.min(state.text.length, lineEnd(state) + 1)]
      : [Math.min(state.cursor, motion ?? 0), Math.max(state.cursor, motion ?? 0) + (char === "e" ? 1 : 0)]
    const after = operate(operator, state, from, to)
    return [{ mode: operator === "c" ? "insert" : "normal", operator: "", before: remembered(after) }, after]
  }
  if (motion !== undefined) return [vi, { ...state, cursor: motion }]
  if (char === "j" || char === "k") return [vi, Editor.press(state, char === "j" ? "down" : "up", history)]
  if (char === "c" || char === "d" || char === "y") return [{ ...vi, operator: char }, state]
  if (char === "u") {
    const last = vi.before.at(-1)
    return last === undefined ? [vi, state] : [{ ...vi, before: vi.before.slice(0, -1) }, { ...last, killed: state.killed }]
  }
  const changed = commands.get(char)?.(state)
  return changed === undefined ? [vi, state] : [{ ...vi, mode: changed[1], before: remembered(changed[0]) }, changed[0]]
}

/** Gives a key to vi. */
export const apply = (vi: ViState, state: Editor.State, key: Key, history: ReadonlyArray<string>): ViApplied => {
  if (vi.mode === "insert") {
    if (key._tag !== "Key" || key.name !== "escape") return { vi, applied: undefined }
    const left = motions.get("h")?.(state) ?? state.cursor
    return { vi: { ...vi, mode: "normal" }, applied: { state: { ...state, cursor: left }, action: state.text === "" ? { _tag: "Escape" } : none } }
  }
  if (key._tag === "Key" && key.name === "escape" && vi.operator !== "") return { vi: { ...vi, operator: "" }, applied: { state, action: none } }
  if (key._tag !== "Text") return { vi: key._tag === "Key" && key.name === "enter" ? begin : vi, applied: undefined }
  let at: readonly [ViState, Editor.State] = [vi, state]
  const chars = Array.from(key.text)
  for (const [index, char] of chars.entries()) {
    at = typed(at[0], at[1], char, history)
    const rest = chars.slice(index + 1).join("")
    // The rest behind the key that began to insert is text.
    if (at[0].mode === "insert" && rest !== "") {
      return { vi: at[0], applied: Editor.apply(at[1], { _tag: "Text", text: rest }, history) }
    }
  }
  return { vi: at[0], applied: { state: at[1], action: none } }
}
