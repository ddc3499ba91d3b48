/**
 * Vi keys for the typed text (`display.editing_mode: vi`). A line begins in insert mode, where keys work as in the
 * plain editor. Esc switches to normal mode. Pure.
 *
 * **Details**
 *
 * | keys of normal mode | effect |
 * | --- | --- |
 * | `h` `l` `0` `^` `$` `w` `b` `e` | move; `j` and `k` move through the lines and the history |
 * | `f` `F` `t` `T` and a character | move to the character, or next to it, within the line |
 * | `i` `a` `I` `A` `o` `O` | insert |
 * | `x` `X` `D` `C` `s` `S` `dd` `cc` `yy` `Y` | delete, copy, and insert after `C`, `s`, `S`, `cc` |
 * | `r` and a character, `~` | replace the character; switch between upper and lower case |
 * | `d`, `c` or `y` with a motion | delete, change, copy |
 * | the same with `iw` `aw` `i"` `a"` (`'`, `` ` ``) | the word or quoted text at the cursor |
 * | `p` `P` `u` | paste the deleted or copied text; undo |
 *
 * A number before a command or a motion repeats it. Enter sends in both modes. Registers, marks and `.` are not
 * supported; Ctrl+G opens an external editor.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Editor from "./Editor.ts"
import * as Width from "../render/Width.ts"
import type { Key } from "./Keys.ts"

/** State of the vi keys. */
export interface ViState {
  readonly mode: "insert" | "normal"
  /** Keys of an incomplete command: a number, an operator, or a key that needs a character. */
  readonly keys: string
  /** Editor states before changes in normal mode, most recent last. */
  readonly before: ReadonlyArray<Editor.State>
}

/** Initial state of a line. */
export const begin: ViState = { mode: "insert", keys: "", before: [] }

/** Result of a key; `applied` is `undefined` if the key is left to the plain editor. */
interface ViKeyResult {
  readonly vi: ViState
  readonly applied: Editor.KeyResult | undefined
}

const mostUndone = 100
const mostTimes = 999

const findLineStart = ({ cursor, text }: Editor.State): number => text.lastIndexOf("\n", cursor - 1) + 1

const findLineEnd = ({ cursor, text }: Editor.State): number => {
  const end = text.indexOf("\n", cursor)
  return end < 0 ? text.length : end
}

const moveRight = (state: Editor.State): number => Editor.press(state, "right").cursor

const measureMatch = (pattern: RegExp, text: string): number => pattern.exec(text)?.[0].length ?? 0

/** Targets of motions. */
const motions: ReadonlyMap<string, (state: Editor.State) => number> = new Map([
  ["h", (state) => Math.max(findLineStart(state), Editor.press(state, "left").cursor)],
  ["l", (state) => Math.min(findLineEnd(state), moveRight(state))],
  ["0", findLineStart],
  [
    "^",
    (state) =>
      findLineStart(state) + measureMatch(/^[ \t]*/, state.text.slice(findLineStart(state), findLineEnd(state)))
  ],
  ["$", findLineEnd],
  [
    "w",
    ({ cursor, text }) =>
      cursor + measureMatch(/^(?:[\p{L}\p{N}\p{M}_]+|[^\p{L}\p{N}\p{M}_\s]+)?\s*/u, text.slice(cursor))
  ],
  [
    "b",
    ({ cursor, text }) =>
      cursor - measureMatch(/(?:[\p{L}\p{N}\p{M}_]+|[^\p{L}\p{N}\p{M}_\s]+)?\s*$/u, text.slice(0, cursor))
  ],
  [
    "e",
    ({ cursor, text }) => {
      const next = cursor + 1
      return (
        next + Math.max(0, measureMatch(/^\s*(?:[\p{L}\p{N}\p{M}_]+|[^\p{L}\p{N}\p{M}_\s]+)?/u, text.slice(next)) - 1)
      )
    }
  ]
])

/** Repeats a step. A step without effect ends the repetition. */
const repeatStep = <A>(times: number, from: A, step: (at: A) => A): A => {
  let at = from
  for (let count = 0; count < times; count++) {
    const next = step(at)
    if (next === at) break
    at = next
  }
  return at
}

/**
 * Returns the position of a character in the line, the `times`-th one forward or backward; `t` and `T` stop next to it.
 */
const findCharacter = (key: string, char: string, state: Editor.State, times: number): number | undefined => {
  const [start, end] = [findLineStart(state), findLineEnd(state)]
  const isForward = key === "f" || key === "t"
  let at = state.cursor
  for (let count = 0; count < times; count++) {
    at = isForward
      ? state.text.indexOf(char, moveRight({ ...state, cursor: at }))
      : at === 0
        ? -1
        : state.text.lastIndexOf(char, at - 1)
    if (at < start || at >= end) return undefined
  }
  return key === "t" ? Editor.press({ ...state, cursor: at }, "left").cursor : key === "T" ? at + char.length : at
}

/** Returns the target of a motion, or `undefined` if the keys are not a motion or the motion has no target. */
const findMotion = (keys: string, state: Editor.State, times: number): number | undefined => {
  const motion = motions.get(keys)
  if (motion !== undefined) return repeatStep(times, state.cursor, (cursor) => motion({ ...state, cursor }))
  return /^[fFtT]./su.test(keys) ? findCharacter(keys.slice(0, 1), keys.slice(1), state, times) : undefined
}

type Range = readonly [from: number, to: number]

const classifyCharacter = (char: string): "blank" | "word" | "other" =>
  /\s/u.test(char) ? "blank" : /[\p{L}\p{N}\p{M}_]/u.test(char) ? "word" : "other"

/**
 * Returns the range of the word or white space at the cursor. `aw` includes the white space after it, or else before
 * it.
 */
const findWordRange = (state: Editor.State, isWhole: boolean): Range => {
  const [start, end] = [findLineStart(state), findLineEnd(state)]
  const line = Array.from(state.text.slice(start, end))
  const at = Array.from(state.text.slice(start, state.cursor)).length
  const kind = classifyCharacter(line[at] ?? " ")
  let [from, to] = [at, at]
  while (from > 0 && classifyCharacter(line[from - 1] ?? " ") === kind) from--
  while (to < line.length && classifyCharacter(line[to] ?? " ") === kind) to++
  if (isWhole) {
    const inner = to
    while (to < line.length && classifyCharacter(line[to] ?? "") === "blank") to++
    if (to === inner) while (from > 0 && classifyCharacter(line[from - 1] ?? "") === "blank") from--
  }
  const places = [from, to].map((index) => start + line.slice(0, index).join("").length)
  return [places[0] ?? start, places[1] ?? end]
}

/** Returns the range of the quoted text at or after the cursor in its line. */
const findQuotedRange = (state: Editor.State, quote: string, isWhole: boolean): Range | undefined => {
  const end = findLineEnd(state)
  for (let open = state.text.indexOf(quote, findLineStart(state)); open >= 0 && open < end;) {
    const close = state.text.indexOf(quote, open + 1)
    if (close < 0 || close >= end) return undefined
    if (close >= state.cursor) return isWhole ? [open, close + 1] : [open + 1, close]
    open = state.text.indexOf(quote, close + 1)
  }
  return undefined
}

const none: Editor.Action = { _tag: "None" }

const cutRange = (state: Editor.State, from: number, to: number): Editor.State => ({
  ...state,
  text: state.text.slice(0, from) + state.text.slice(to),
  cursor: from,
  killed: state.text.slice(from, to),
  back: 0
})

const insertText = (state: Editor.State, at: number, text: string): Editor.State => ({
  ...state,
  text: state.text.slice(0, at) + text + state.text.slice(at),
  cursor: at + text.length,
  back: 0
})

/** Replaces the characters at the cursor, at most up to the end of the line. */
const replaceCharacters = (state: Editor.State, times: number, other: (char: string) => string): Editor.State => {
  const to = findMotion("l", state, times) ?? state.cursor
  const next = Array.from(Width.splitGraphemes(state.text.slice(state.cursor, to)), ({ text }) => other(text)).join("")
  return {
    ...state,
    text: state.text.slice(0, state.cursor) + next + state.text.slice(to),
    cursor: state.cursor + next.length,
    back: 0
  }
}

/** Returns the end of the line that is `times` - 1 lines below. */
const findLowerEnd = (state: Editor.State, times: number): number =>
  repeatStep(times - 1, findLineEnd(state), (cursor) =>
    cursor >= state.text.length ? cursor : findLineEnd({ ...state, cursor: cursor + 1 })
  )

/** Returns the range to which an operator applies, or `undefined` if its motion is invalid. */
const findRange = (operator: string, keys: string, state: Editor.State, times: number): Range | undefined => {
  if (keys === operator)
    return [
      findLineStart(state),
      operator === "c" ? findLowerEnd(state, times) : Math.min(state.text.length, findLowerEnd(state, times) + 1)
    ]
  if (/^[ia]w$/u.test(keys)) return findWordRange(state, keys === "aw")
  if (/^[ia]["'`]$/u.test(keys)) return findQuotedRange(state, keys.slice(1), keys.startsWith("a"))
  const to = findMotion(keys, state, times)
  if (to === undefined) return undefined
  if (keys === "w") {
    const passed = state.text.slice(state.cursor, to)
    // For a change, the white space after the word is kept, and the line is not joined with the next one.
    const kept =
      operator === "c" && classifyCharacter(passed.slice(0, 1)) !== "blank"
        ? passed.trimEnd()
        : passed.replace(/(?<=\S)[ \t]*\n\s*$/u, "")
    return [state.cursor, state.cursor + kept.length]
  }
  const isIncluded = keys === "e" || /^[ft]/u.test(keys)
  return [Math.min(state.cursor, to), isIncluded ? moveRight({ ...state, cursor: to }) : Math.max(state.cursor, to)]
}

type ViChange = readonly [state: Editor.State, mode: ViState["mode"]]

/** Applies an operator to a range. Copying does not change the text. */
const applyOperator = (operator: string, state: Editor.State, [from, to]: Range): ViChange =>
  operator === "y"
    ? [{ ...state, killed: state.text.slice(from, to), cursor: from }, "normal"]
    : [cutRange(state, from, to), operator === "c" ? "insert" : "normal"]

/** Commands of one key, with their repeat count. */
const commands: ReadonlyMap<string, (state: Editor.State, times: number) => ViChange> = new Map<
  string,
  (state: Editor.State, times: number) => ViChange
>([
  ["i", (state) => [state, "insert"]],
  ["a", (state) => [{ ...state, cursor: Math.min(findLineEnd(state), moveRight(state)) }, "insert"]],
  ["I", (state) => [{ ...state, cursor: findMotion("^", state, 1) ?? 0 }, "insert"]],
  ["A", (state) => [{ ...state, cursor: findLineEnd(state) }, "insert"]],
  ["o", (state) => [insertText(state, findLineEnd(state), "\n"), "insert"]],
  ["O", (state) => [{ ...insertText(state, findLineStart(state), "\n"), cursor: findLineStart(state) }, "insert"]],
  ["x", (state, times) => [cutRange(state, state.cursor, findMotion("l", state, times) ?? state.cursor), "normal"]],
  ["X", (state, times) => [cutRange(state, findMotion("h", state, times) ?? state.cursor, state.cursor), "normal"]],
  ["s", (state, times) => [cutRange(state, state.cursor, findMotion("l", state, times) ?? state.cursor), "insert"]],
  ["S", (state, times) => [cutRange(state, findLineStart(state), findLowerEnd(state, times)), "insert"]],
  ["D", (state, times) => [cutRange(state, state.cursor, findLowerEnd(state, times)), "normal"]],
  ["C", (state, times) => [cutRange(state, state.cursor, findLowerEnd(state, times)), "insert"]],
  ["Y", (state, times) => applyOperator("y", state, findRange("y", "y", state, times) ?? [state.cursor, state.cursor])],
  [
    "~",
    (state, times) => [
      replaceCharacters(state, times, (char) =>
        char === char.toLowerCase() ? char.toUpperCase() : char.toLowerCase()
      ),
      "normal"
    ]
  ],
  ["p", (state, times) => [insertText(state, moveRight(state), state.killed.repeat(times)), "normal"]],
  ["P", (state, times) => [insertText(state, state.cursor, state.killed.repeat(times)), "normal"]]
])

/** Matches a command: a count, an operator with an optional second count, and a key with its character. */
const form = /^(?<count>[1-9]\d*)?(?:(?<operator>[cdy])(?<more>[1-9]\d*)?)?(?<rest>.*)$/su

const wantsMore = (operator: string, rest: string): boolean =>
  rest === "" || /^[fFtT]$/u.test(rest) || (operator === "" ? rest === "r" : rest === "i" || rest === "a")

/** Handles one typed character in normal mode. */
const typeCharacter = (
  vi: ViState,
  state: Editor.State,
  char: string,
  history: ReadonlyArray<string>
): readonly [ViState, Editor.State] => {
  const keys = vi.keys + char
  const { count = "1", more = "1", operator = "", rest = "" } = form.exec(keys)?.groups ?? {}
  if (wantsMore(operator, rest)) return [{ ...vi, keys }, state]
  const idle: ViState = { ...vi, keys: "" }
  const times = Math.min(mostTimes, Number(count) * Number(more))
  const applyChange = ([after, mode]: ViChange): readonly [ViState, Editor.State] => [
    { mode, keys: "", before: after.text === state.text ? vi.before : [...vi.before, state].slice(-mostUndone) },
    after
  ]
  if (operator !== "") {
    const range = findRange(operator, rest, state, times)
    return range === undefined ? [idle, state] : applyChange(applyOperator(operator, state, range))
  }
  const place = findMotion(rest, state, times)
  if (place !== undefined) return [idle, { ...state, cursor: place }]
  if (rest === "j" || rest === "k")
    return [idle, repeatStep(times, state, (at) => Editor.press(at, rest === "j" ? "down" : "up", history))]
  if (rest === "u") {
    const last = vi.before.at(-times) ?? vi.before[0]
    return last === undefined
      ? [idle, state]
      : [
          { ...idle, before: vi.before.slice(0, -times) },
          { ...last, killed: state.killed }
        ]
  }
  if (/^r./su.test(rest)) {
    const all = replaceCharacters(state, times, () => rest.slice(1))
    return applyChange([{ ...all, cursor: findMotion("h", all, 1) ?? all.cursor }, "normal"])
  }
  const next = commands.get(rest)?.(state, times)
  return next === undefined ? [idle, state] : applyChange(next)
}

/** Applies a key in vi mode. */
export const apply = (vi: ViState, state: Editor.State, key: Key, history: ReadonlyArray<string>): ViKeyResult => {
  if (vi.mode === "insert") {
    if (key._tag !== "Key" || key.name !== "escape") return { vi, applied: undefined }
    const left = findMotion("h", state, 1) ?? state.cursor
    return {
      vi: { ...vi, mode: "normal" },
      applied: { state: { ...state, cursor: left }, action: state.text === "" ? { _tag: "Escape" } : none }
    }
  }
  if (key._tag === "Key" && key.name === "escape" && vi.keys !== "")
    return { vi: { ...vi, keys: "" }, applied: { state, action: none } }
  if (key._tag !== "Text") return { vi: key._tag === "Key" && key.name === "enter" ? begin : vi, applied: undefined }
  let at: readonly [ViState, Editor.State] = [vi, state]
  const chars = Array.from(key.text)
  for (const [index, char] of chars.entries()) {
    at = typeCharacter(at[0], at[1], char, history)
    const rest = chars.slice(index + 1).join("")
    // Characters after the key that switched to insert mode are text.
    if (at[0].mode === "insert" && rest !== "") {
      return { vi: at[0], applied: Editor.apply(at[1], { _tag: "Text", text: rest }, history) }
    }
  }
  return { vi: at[0], applied: { state: at[1], action: none } }
}
