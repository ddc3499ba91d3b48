/**
 * A list with fuzzy search, shown below the typed line or instead of it. Up and Down move the selection, Enter and Tab
 * choose the selected row, and Esc cancels. If a list accepts free text, text that matches no row is the answer.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Effect from "effect/Effect"
import type { Paint } from "../render/Paint.ts"
import * as SafeText from "../render/SafeText.ts"
import * as Screen from "../render/Screen.ts"
import * as Width from "../render/Width.ts"
import type { Dialog } from "./Dialog.ts"
import * as Editor from "./Editor.ts"
import * as FuzzyMatch from "./FuzzyMatch.ts"
import type { Key } from "./Keys.ts"
import * as PromptLine from "./PromptLine.ts"

/** Options of a list shown instead of the prompt. */
interface PickerOptions<A> {
  readonly title: string
  readonly choices: ReadonlyArray<PromptLine.Choice<A>>
  /** Converts text that matches no choice to an answer; `undefined` if only choices are accepted. */
  readonly ofWords?: ((words: string) => A) | undefined
  /** More choices, which Ctrl+A shows instead. */
  readonly wider?: { readonly title: string; readonly choices: ReadonlyArray<PromptLine.Choice<A>> } | undefined
  /** Row shown instead of the choices if no choice matches. */
  readonly nothing?: string | undefined
}

/** Maximum number of ranked choices. */
const mostRanked = 200

const rankChoices = <A>(
  choices: ReadonlyArray<PromptLine.Choice<A>>,
  query: string
): ReadonlyArray<PromptLine.Choice<A>> =>
  FuzzyMatch.rank(query, choices, ({ detail = "", label }) => `${label} ${detail}`, mostRanked)

/** Lets the user choose a row; returns `undefined` if the user cancelled. */
export const choose = Effect.fnUntraced(function* <A>(
  dialog: Dialog,
  {
    choices,
    nothing = choices.length === 0 ? "The list is empty. Press Esc to go back." : "No match. Press Esc to go back.",
    ofWords,
    title,
    wider
  }: PickerOptions<A>
): Effect.fn.Return<A | undefined> {
  const { screen } = dialog
  const { asidePaint } = screen
  let query = Editor.empty
  let selected = 0
  let isWide = false
  const listMatches = (): ReadonlyArray<PromptLine.Choice<A>> =>
    rankChoices(isWide ? (wider?.choices ?? choices) : choices, query.text)
  const formatTitle = (): string =>
    wider === undefined ? title : isWide ? `${wider.title} · Ctrl+A this folder` : `${title} · Ctrl+A all folders`
  const show = Effect.sync(() =>
    screen.live((size) => {
      const rows = listMatches()
      const listed =
        rows.length === 0
          ? [asidePaint.text(Width.cut(`  ${nothing}`, size.columns - 1), "dim")]
          : PromptLine.renderRows(rows, selected, size, asidePaint)
      return Editor.render(
        query,
        {
          prompt: PromptLine.renderMark(asidePaint),
          indent: 2,
          below: [...listed, formatHint(formatTitle(), size.columns, asidePaint)]
        },
        size
      )
    })
  )

  const pressKey = (key: Key) =>
    Effect.sync((): { readonly chosen: A | undefined } | undefined => {
      const name = key._tag === "Key" ? key.name : ""
      const rows = listMatches()
      if (name === "down" || name === "ctrl-n") selected = Math.min(rows.length - 1, selected + 1)
      else if (name === "up" || name === "ctrl-p") selected = Math.max(0, selected - 1)
      else if (name === "ctrl-a" && wider !== undefined) {
        isWide = !isWide
        selected = 0
      } else if (name === "enter" || name === "tab") {
        const words = query.text.trim()
        const row = rows[selected]
        if (row !== undefined) return { chosen: row.value }
        return ofWords === undefined || words === "" ? undefined : { chosen: ofWords(words) }
      } else {
        const { action, state } = Editor.apply(query, key, [])
        if (action._tag === "Escape" || action._tag === "Interrupt" || action._tag === "Leave")
          return { chosen: undefined }
        if (state.text !== query.text) selected = 0
        query = state
      }
      return undefined
    })

  yield* show
  const { chosen } = yield* PromptLine.readKeys(dialog, pressKey, show, { chosen: undefined }).pipe(
    Effect.ensuring(Effect.sync(() => screen.live(Screen.renderNothing)))
  )
  return chosen
})

/** Returns the longest hint that fits beside a title, so that the way out is always visible. */
const chooseHint = (title: string, columns: number): string =>
  ["type to search · Enter takes it · Esc goes back", "type · Enter takes · Esc back", "Esc back"].find(
    (hint) => Width.measure(title) + hint.length + 6 <= columns
  ) ?? "Esc back"

const formatHint = (title: string, columns: number, paint: Paint): string =>
  paint.text(Width.cut(`  ${SafeText.toLine(title)} · ${chooseHint(title, columns)}`, columns - 1), "dim")
