/**
 * Going from one session to another, and out of the last one. Hooks are told of each identity that is given up.
 *
 * Source: `hermes-contract.md` §2.3 (`on_session_finalize`, then `on_session_reset`), `hermes-product.md` §1.7.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SessionStoreError } from "../../domain/AgentError.ts"
import type { SessionId } from "../../domain/Ids.ts"
import type { Session } from "../../session/SessionStore.ts"
import type { Current, Dialog, InteractiveOptions } from "./Dialog.ts"
import * as Dialogs from "./Dialog.ts"
import * as Overview from "./Overview.ts"
import * as Recap from "./Recap.ts"

const platformOf = ({ platform }: InteractiveOptions): string => platform ?? "cli"

/** A session that begins. */
export const fresh = (options: InteractiveOptions, id: SessionId, title: string | undefined): Effect.Effect<Current> =>
  Effect.map(Clock.currentTimeMillis, (since) => ({
    id,
    since,
    title,
    cwd: options.about.cwd,
    prompts: 0,
    lastPrompt: undefined
  }))

/** The old identity is given up, the new one takes its place. */
const announce = Effect.fnUntraced(function*(
  { options }: Dialog,
  from: SessionId,
  to: SessionId,
  reason: "new_session" | "session_boundary"
) {
  const ids = { platform: platformOf(options), reason, old_session_id: from, new_session_id: to }
  yield* options.agent.finalize(from, { reason, next: to })
  yield* options.hooks.emit("on_session_reset", () => ({ session_id: to, ...ids }))
})

/** Begins a new session. */
export const begin = Effect.fnUntraced(function*(dialog: Dialog, title: string | undefined) {
  const from = dialog.current.id
  const to = yield* dialog.options.newSession
  dialog.current = yield* fresh(dialog.options, to, title)
  yield* announce(dialog, from, to, "new_session")
  return from
})

/** Tells what was said in a session that is resumed, and makes it the current one. */
export const enter = Effect.fnUntraced(function*(
  dialog: Dialog,
  session: Session
): Effect.fn.Return<void, SessionStoreError> {
  const { options, screen } = dialog
  const messages = yield* options.store.messages(session.id)
  const exchanges = Recap.exchanges(messages)
  const cwd = options.directoryOf === undefined ? undefined : yield* options.directoryOf(session)
  const now = yield* Clock.currentTimeMillis
  dialog.current = {
    id: session.id,
    since: now,
    cwd: cwd ?? options.about.cwd,
    prompts: exchanges.length,
    title: undefined,
    lastPrompt: exchanges.at(-1)?.user
  }
  const { columns } = screen.size()
  const recap = options.display.resumeDisplay === "full"
    ? Recap.render(messages, Recap.resumed, columns, screen.asidePaint)
    : []
  const when = Overview.ago(now - (session.endedAt ?? session.startedAt))
  Dialogs.say(
    dialog,
    screen.asidePaint.text(Overview.resumed(session, exchanges.length, when), "bold"),
    ...recap.length === 0 ? [] : ["", ...recap],
    ""
  )
})

/** Goes to another session. */
export const go = Effect.fnUntraced(function*(dialog: Dialog, session: Session) {
  const from = dialog.current.id
  yield* enter(dialog, session)
  if (session.id !== from) yield* announce(dialog, from, session.id, "session_boundary")
})

/** Stored record of the current session. */
export const known = ({ current, options }: Dialog): Effect.Effect<Session | undefined, SessionStoreError> =>
  Effect.map(options.store.get(current.id), Option.getOrUndefined)

/** The end of the last session: what there is of it, and that it is given up. */
export const leave = Effect.fnUntraced(function*(dialog: Dialog) {
  const { current, options } = dialog
  const session = yield* Effect.catch(known(dialog), (error) =>
    Effect.as(Effect.sync(() => Dialogs.complain(dialog, error)), undefined))
  const now = yield* Clock.currentTimeMillis
  if (session !== undefined) {
    const resume = Dialogs.resumeCommand(dialog, session.id)
    Dialogs.say(dialog, ...Overview.farewell(session, current.prompts, now - current.since, resume))
  }
  yield* options.agent.finalize(current.id, { reason: "shutdown" })
})
