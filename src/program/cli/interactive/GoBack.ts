/**
 * Esc Esc: goes back to an earlier message of the conversation. The conversation continues in a copy of the session
 * that ends before that message, and the message can be edited and sent again. If later turns changed files, the user
 * chooses whether to undo those changes too.
 *
 * The original session is unchanged; `/redo` and `/resume` find it.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Effect from "effect/Effect"
import * as Redaction from "../../../base/domain/Redaction.ts"
import * as ChangeSets from "../../../store/ChangeSets.ts"
import { renderUserText } from "../../../serve/host/SessionMoves.ts"
import * as SafeText from "../render/SafeText.ts"
import * as ChangeCommands from "./ChangeCommands.ts"
import { printError, type Dialog, printLines, type SessionServices } from "./Dialog.ts"
import * as Editor from "./Editor.ts"
import * as Picker from "./Picker.ts"

/** Returns the text of a message as it was typed, without the text added to it. */
const extractTypedText = (text: string): string => text.split(/\n\n<(?:user_shell|file|stdin) ?/, 1)[0] ?? text

/** An earlier message and its position. */
interface EarlierMessage {
  readonly text: string
  /** Number of messages before this message. */
  readonly position: number
}

const pickMessage = Effect.fnUntraced(function* (dialog: Dialog) {
  const stored = yield* dialog.live.known
  const messages = stored === undefined ? [] : yield* dialog.live.messages
  const earlier = messages
    .flatMap((message, position): ReadonlyArray<EarlierMessage> =>
      message.role === "user" ? [{ text: extractTypedText(renderUserText(message)), position }] : []
    )
    .toReversed()
  if (earlier.length === 0) return printLines(dialog, "No earlier message to go back to.", "")
  return yield* Picker.choose(dialog, {
    title: "Go back to an earlier message",
    choices: earlier.map((value, index) => ({
      label: SafeText.toLine(Redaction.redactText(value.text)),
      detail: index === 0 ? "the last message" : `${index + 1} messages back`,
      value
    }))
  })
})

const rewindConversation = Effect.fnUntraced(function* (dialog: Dialog) {
  const chosen = yield* pickMessage(dialog)
  if (chosen === undefined) return
  const {
    session: { id }
  } = yield* dialog.live.state
  const { runs } = yield* ChangeSets.readHistory(id)
  const since = runs.filter(
    ({ position, sessionId, undone }) =>
      undone === undefined && sessionId === id && position !== undefined && position >= chosen.position
  )
  const changed = since.filter(({ changes }) => changes.length > 0).toReversed()
  const isUndone =
    changed.length === 0
      ? false
      : yield* Picker.choose(dialog, {
          title: `${changed.length === 1 ? "1 turn" : `${changed.length} turns`} since then changed files`,
          choices: [
            { label: "Also undo the file changes", value: true },
            { label: "Keep the files", value: false }
          ]
        })
  if (isUndone === undefined) return
  if (isUndone) {
    for (const set of changed) if (!(yield* ChangeCommands.moveFiles(dialog, set, "undo", "ask"))) return
  }
  yield* ChangeCommands.forkAt(dialog, id, chosen.position)
  dialog.editor = Editor.withText(Editor.empty, SafeText.sanitise(chosen.text))
})

/** Lets the user choose a message and goes back to it. No turn starts in the meantime. */
export const goBack = (dialog: Dialog): Effect.Effect<void, never, SessionServices> =>
  Effect.scoped(Effect.andThen(dialog.live.hold, rewindConversation(dialog))).pipe(
    Effect.catch((error) => Effect.sync(() => printError(dialog, error)))
  )
