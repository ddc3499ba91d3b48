/**
 * Switches between sessions and closes the last one, and shows the changes on the terminal.
 *
 * Source: `hermes-product.md` §1.7.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SessionBusy, SessionNotFound, SessionStoreError } from "../../../base/domain/AgentError.ts"
import { type Session, SessionStore } from "../../../store/SessionStore.ts"
import * as Width from "../render/Width.ts"
import { findOtherFolder } from "../SessionChoice.ts"
import * as SessionList from "../SessionList.ts"
import type { Dialog } from "./Dialog.ts"
import * as Dialogs from "./Dialog.ts"
import * as Overview from "./Overview.ts"
import * as Picker from "./Picker.ts"
import * as Recap from "./Recap.ts"

/** Asks before a session of another folder is resumed, because its tools work in that folder. */
const confirmFolder = Effect.fnUntraced(function* (dialog: Dialog, session: Session): Effect.fn.Return<boolean> {
  const { folder } = dialog.options
  const current = (yield* dialog.live.state).session.cwd
  const other = folder === undefined || session.cwd === current ? undefined : yield* findOtherFolder(folder, session)
  if (other === undefined || dialog.options.terminal.isLinear) return true
  const answer = yield* Picker.choose(dialog, {
    title: `This session belongs to another folder: ${other}`,
    choices: [
      { label: "Resume it", detail: "its tools work in that folder", value: true },
      { label: "Stay in this session", detail: "", value: false }
    ]
  })
  return answer === true
})

/** Describes the newest session of this folder and the way to it; empty if there is no such session. */
const describeLatest = Effect.fnUntraced(
  function* (dialog: Dialog) {
    const { folder } = dialog.options
    if (folder === undefined) return []
    const latest = yield* SessionStore.use((store) => store.resolve("latest", folder))
    const [listed] = yield* SessionList.describeSessions([latest], folder)
    if (listed === undefined) return []
    const when = Overview.formatAgo((yield* Clock.currentTimeMillis) - (latest.endedAt ?? latest.startedAt))
    const branch = listed.branch === undefined ? "" : ` (${listed.branch})`
    return [`last here: ${Width.cut(listed.topic, 60)}${branch}, ${when} · /resume continues it or another session`]
  },
  // Without a session, or without a readable store, a new conversation begins as usual.
  Effect.orElseSucceed((): ReadonlyArray<string> => [])
)

/** Prints the first lines of a conversation. A new one names the last session of its folder. */
export const printBanner = Effect.fnUntraced(function* (dialog: Dialog) {
  const {
    options: { about, session },
    screen: { asidePaint }
  } = dialog
  const latest = session.known === undefined ? yield* describeLatest(dialog) : []
  const banner = Overview.renderBanner(about, session.id, { paint: asidePaint })
  Dialogs.printLines(dialog, ...banner, ...latest.map((line) => asidePaint.text(line, "dim")), "")
})

/** Opens the referenced session and shows its conversation. */
export const openSession = Effect.fnUntraced(function* (
  dialog: Dialog,
  reference: string
): Effect.fn.Return<void, SessionBusy | SessionNotFound | SessionStoreError> {
  const { live, options, screen } = dialog
  const { folder } = options
  const { messages, session } = yield* live.resume(reference, folder)
  const other = folder === undefined ? undefined : yield* findOtherFolder(folder, session)
  const { columns } = screen.size()
  const recap =
    options.display.resumeDisplay === "full" ? Recap.render(messages, Recap.resumed, columns, screen.asidePaint) : []
  const when = Overview.formatAgo((yield* Clock.currentTimeMillis) - (session.endedAt ?? session.startedAt))
  Dialogs.printLines(
    dialog,
    screen.asidePaint.text(Overview.formatResumeLine(session, Recap.toExchanges(messages).length, when), "bold"),
    ...(other === undefined ? [] : [screen.asidePaint.text(`It belongs to another folder (${other}).`, "yellow")]),
    ...(recap.length === 0 ? [] : ["", ...recap]),
    ""
  )
  // A suspended run asks its questions as a turn.
  yield* live.askWaiting
})

/** Switches to the referenced session, unless it belongs to another folder and the user declines. */
export const resume = Effect.fnUntraced(function* (
  dialog: Dialog,
  reference: string
): Effect.fn.Return<void, SessionBusy | SessionNotFound | SessionStoreError, SessionStore> {
  const found = yield* SessionStore.use((store) => store.resolve(reference, dialog.options.folder))
  if (yield* confirmFolder(dialog, found)) yield* openSession(dialog, reference)
})

/** Ends the last session: shows its summary and closes it. */
export const leave = Effect.fnUntraced(function* (dialog: Dialog) {
  const { live } = dialog
  // Queued messages no longer start a turn.
  yield* live.hold
  yield* live.interrupt
  const session = yield* Effect.catch(live.known, (error) =>
    Effect.as(
      Effect.sync(() => Dialogs.printError(dialog, error)),
      undefined
    )
  )
  const now = yield* Clock.currentTimeMillis
  if (session !== undefined) {
    const { prompts, since } = (yield* live.state).session
    Dialogs.printLines(
      dialog,
      ...Overview.renderFarewell(session, prompts, now - since, Dialogs.formatResumeCommand(session.id))
    )
  }
  yield* live.close
}, Effect.scoped)
