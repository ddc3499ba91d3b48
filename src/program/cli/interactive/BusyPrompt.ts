/**
 * The prompt while the agent or a user command is working: the current activity is shown, Ctrl+C stops it, and typed
 * input waits for its turn.
 *
 * The first Ctrl+C asks the work to stop, and a second Ctrl+C within two seconds exits the program. The exit waits for
 * the work to end, but no longer than {@link graceMillis}. After work is stopped, waiting input does not start: it
 * returns to the prompt.
 *
 * Input sent in the meantime is processed afterwards (`display.busy_input_mode: queue`), or stops the work first
 * (`interrupt`), or reaches the model with the next tool result (`steer`). Commands about the work itself (`/stop`,
 * `/steer`, `/agents`, …) are never kept waiting.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Semaphore from "effect/Semaphore"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { State } from "../../../serve/host/HostEvent.ts"
import { frameMillis } from "../render/BlockReducer.ts"
import * as SafeText from "../render/SafeText.ts"
import * as Screen from "../render/Screen.ts"
import * as Width from "../render/Width.ts"
import * as SlashCommands from "./SlashCommands.ts"
import { attachNamedFiles } from "./Attachments.ts"
import { type Dialog, showNote, rememberLine, type SessionServices, type TypedLine } from "./Dialog.ts"
import * as Editor from "./Editor.ts"
import type * as Keys from "./Keys.ts"
import * as PromptLine from "./PromptLine.ts"
import * as Questions from "./Questions.ts"
import * as StatusLine from "./StatusLine.ts"

/** Time limit for the work to end when the user leaves, in milliseconds. */
const graceMillis = 1500

/** Pause in typing, in milliseconds, after which a question counts as seen. */
const pauseMillis = 700

/** Returns true if a line is a shell command or a memory note instead of a message. */
const isShell = (line: string): boolean => /^!+\s*[^!\s]/.test(line) || /^#\s*\S[^\n]*$/.test(line)

/** Adds a space before a message that would otherwise be parsed as a command. */
const toPlainMessage = (text: string): string => (/^[/!#]/.test(text) ? ` ${text}` : text)

/** Effect of a key on the edited line. */
interface KeyEffect {
  readonly action: Editor.Action
  readonly question: Questions.Pending | undefined
}

/** Work that takes time, such as a turn or a user command. */
interface Work<A, E, R> {
  readonly run: Effect.Effect<A, E, R>
  /** Asks the work to end. Returns false if it cannot be asked, in which case it is interrupted. */
  readonly stop: Effect.Effect<boolean>
  /** Lines about the current activity. */
  readonly view: (size: Screen.Size, now: number) => ReadonlyArray<string>
}

/** Result of the work: it ended, or the user left the program. */
type WorkResult<A, E> =
  | { readonly _tag: "Ended"; readonly exit: Exit.Exit<A, E>; readonly stopped: boolean }
  | { readonly _tag: "Leave"; readonly code: number }

/**
 * Creates the view of the typed text and the lines above it. The typed text is a line for the session, or the answer to
 * a question.
 */
const makeView =
  (
    dialog: Dialog,
    { queue, steering }: Pick<State, "queue" | "steering">,
    lines: ReadonlyArray<string>,
    { editor }: Pick<Dialog, "editor">
  ): Screen.View =>
  (size) => {
    const { asidePaint } = dialog.screen
    const question = dialog.asked
    const sent = queue.flatMap(({ origin, shown }) => (origin === "client" ? [shown] : []))
    const waiting = [
      ...steering.map((line) => `sending: ${SafeText.toLine(line)}`),
      ...[...sent, ...dialog.waiting.map(({ shown }) => shown)].map((line) => `next: ${SafeText.toLine(line)}`)
    ].map((line) => asidePaint.text(Width.cut(line, size.columns - 1), "dim"))
    const asked = question === undefined ? [] : Questions.renderChoices(question, size.columns, asidePaint)
    const above = [...lines, ...waiting, ...asked].slice(-Math.max(1, size.rows - 4))
    if (question === undefined && editor.text === "") {
      return { lines: [...above, ...StatusLine.renderLines(dialog.statusLine, size.columns, asidePaint)] }
    }
    const room = { ...size, rows: Math.max(3, size.rows - above.length) }
    const { cursor, lines: typed } = PromptLine.makeView(
      { editor, screen: dialog.screen, statusLine: dialog.statusLine },
      []
    )(room)
    return {
      lines: [...above, ...typed],
      cursor: cursor === undefined ? undefined : { row: above.length + cursor.row, column: cursor.column }
    }
  }

/** Interrupts work that may not end, and waits a limited time for its end. */
const interruptWork = (fiber: Fiber.Fiber<unknown, unknown>): Effect.Effect<unknown> =>
  Effect.suspend(() => {
    fiber.interruptUnsafe()
    return Effect.raceFirst(Effect.interruptible(Fiber.await(fiber)), Effect.interruptible(Effect.sleep(graceMillis)))
  })

/** Running work, and the keys that the user pressed in the meantime. */
interface BusyWork extends Pick<Dialog, "live" | "options" | "screen"> {
  readonly dialog: Dialog
  readonly work: Pick<Work<unknown, unknown, never>, "stop" | "view">
  readonly fiber: Fiber.Fiber<unknown, unknown>
  readonly context: Context.Context<SessionServices>
  /** Held while the user scrolls through the conversation. */
  readonly viewed: Semaphore.Semaphore
  /** True after the work was asked to end. */
  isStopped: boolean
  /** Time of the last key, and of the first key after a pause. */
  typedAt: number
  burstAt: number
}

/**
 * Returns the question that typed input currently answers. Input typed when the question appeared is not an answer,
 * because the user has not seen the question yet.
 */
const findAskedQuestion = (busy: BusyWork, now: number): Questions.Pending | undefined => {
  const { asked } = busy.dialog
  return asked !== undefined && (now - busy.typedAt >= pauseMillis || busy.burstAt >= asked.shownAt) ? asked : undefined
}

/** Shows the current activity and the typed text. */
const showActivity = Effect.fnUntraced(function* (busy: BusyWork) {
  const { screen, dialog } = busy
  const now = yield* Clock.currentTimeMillis
  const state = yield* busy.live.state
  const stopping = [screen.asidePaint.text("┊ stopping · Ctrl+C again exits", "dim")]
  const lines = busy.isStopped || state.turn?.isStopping === true ? stopping : busy.work.view(screen.size(), now)
  screen.live(makeView(dialog, state, lines, findAskedQuestion(busy, now) ?? dialog))
})

const stopWork = Effect.fnUntraced(function* (busy: BusyWork) {
  busy.isStopped = true
  if (!(yield* busy.work.stop)) yield* Effect.forkDetach(Fiber.interrupt(busy.fiber))
})

/** Stops the work, and returns the waiting input to the prompt. */
const returnInput = Effect.fnUntraced(function* (busy: BusyWork) {
  const { dialog } = busy
  // Messages are taken back before the work ends, because its end would start the next message.
  const messages = yield* busy.live.takeBack
  const lines = [
    ...messages.map(
      ({ id, prompt, shown }) => dialog.sent.get(id)?.text ?? (typeof prompt === "string" ? prompt : shown)
    ),
    ...dialog.waiting.splice(0).map(({ text }) => text)
  ]
  for (const { id } of messages) dialog.sent.delete(id)
  yield* stopWork(busy)
  if (lines.length === 0) return
  PromptLine.putBack(dialog, lines)
  const what = lines.length === 1 ? "What waited is" : `The ${lines.length} lines that waited are`
  showNote(dialog, busy.screen.asidePaint.text(`${what} back in the prompt.`, "dim"))
})

/**
 * Queues a line for later; a message may be added to the current turn instead. Lines stay in the order in which they
 * were typed.
 */
const queueLine = Effect.fnUntraced(function* ({ dialog, live }: BusyWork, line: TypedLine, mode: "queue" | "steer") {
  const isMessage = SlashCommands.parse(line.text) === undefined && !isShell(line.text)
  if (isMessage && dialog.waiting.length === 0) {
    yield* rememberLine(dialog, line)
    const prompt = yield* attachNamedFiles(dialog, line.text.trim())
    const { message } = yield* live.send({ prompt, shown: line.shown, busy: mode })
    dialog.sent.set(message.id, line)
  } else dialog.waiting.push(line)
})

const submitLine = Effect.fnUntraced(function* (busy: BusyWork, line: TypedLine) {
  const { dialog } = busy
  if (line.text.trim() === "") return
  const command = SlashCommands.parse(line.text)
  const found = command === undefined ? undefined : SlashCommands.find(dialog.commands, command.name)
  if (command !== undefined && found?._tag === "Command" && found.command.meanwhile !== undefined) {
    return yield* found.command.meanwhile(command.argument, dialog, {
      stop: returnInput(busy),
      send: (text, mode) =>
        Effect.provideContext(
          queueLine(busy, { shown: toPlainMessage(text), text: toPlainMessage(text) }, mode),
          busy.context
        )
    })
  }
  const { busyInputMode } = busy.options.display
  const isMessage = command === undefined && !isShell(line.text)
  yield* queueLine(busy, line, isMessage && busyInputMode === "steer" ? "steer" : "queue")
  if (isMessage && busyInputMode === "interrupt") yield* stopWork(busy)
})

const answerQuestion = Effect.fnUntraced(function* (
  { dialog, screen, live }: BusyWork,
  pending: Questions.Pending,
  line: string
) {
  const answers = Questions.readAnswer(pending.shown, line)
  if (answers === undefined) return
  showNote(dialog, PromptLine.renderMark(screen.asidePaint) + SafeText.toLine(Redaction.redactText(answers.join(", "))))
  // Another client may have answered first, or the turn may be over.
  yield* Effect.catchTag(live.answer(pending.id, pending.parseAnswer(answers)), "AnswerRejected", ({ message }) =>
    Effect.sync(() => showNote(dialog, screen.asidePaint.text(SafeText.toLine(message), "dim")))
  )
})

/** Passes a key to the open question if there is one, otherwise to the typed line. */
const applyKey = (busy: BusyWork, key: Keys.Key, now: number): KeyEffect => {
  const question = findAskedQuestion(busy, now)
  if (now - busy.typedAt >= pauseMillis) busy.burstAt = now
  busy.typedAt = now
  if (question !== undefined && Questions.moveMark(question, key)) return { action: { _tag: "None" }, question }
  const edited = question ?? busy.dialog
  const { action, state } = Editor.apply(
    edited.editor,
    key,
    question === undefined ? busy.options.history.entries() : []
  )
  edited.editor = state
  return { action, question }
}

/** Stops the work after the first Ctrl+C. Returns the exit code after the second one. */
const interruptOrLeave = Effect.fnUntraced(function* (busy: BusyWork, now: number) {
  const { dialog } = busy
  if (now - dialog.interruptedAt < PromptLine.leaveMillis) return PromptLine.interruptedCode
  dialog.interruptedAt = now
  return yield* Effect.as(returnInput(busy), undefined)
})

/** Runs the action of a key. Returns the exit code if the user leaves. */
const runAction = Effect.fnUntraced(function* (busy: BusyWork, { action, question }: KeyEffect, now: number) {
  const { dialog, screen } = busy
  switch (action._tag) {
    case "Submit": {
      const line = PromptLine.toLine(action)
      const submitted =
        question === undefined
          ? submitLine(busy, line)
          : answerQuestion(busy, question, Questions.readSubmitted(question, line.text))
      return yield* Effect.as(submitted, undefined)
    }
    case "Escape":
      return yield* Effect.as(returnInput(busy), undefined)
    case "TooLarge":
      showNote(dialog, PromptLine.describeLargePaste(screen.asidePaint, action.characters))
      return undefined
    case "Interrupt":
      return yield* interruptOrLeave(busy, now)
    case "Suspend":
      return yield* Effect.as(PromptLine.suspend(dialog), undefined)
    case "Complete":
      if (question === undefined) PromptLine.complete(dialog)
      return undefined
    case "Leave":
    case "ClearScreen":
    case "OpenEditor":
    case "OpenTranscript":
    case "PastePicture":
    case "SearchHistory":
    case "None":
      return undefined
  }
})

const pressKey = Effect.fnUntraced(function* (
  busy: BusyWork,
  key: Keys.Key
): Effect.fn.Return<number | undefined, never, SessionServices> {
  const { dialog, viewed } = busy
  if (key._tag === "Key" && key.name === "backtab") return yield* Effect.as(PromptLine.switchMode(dialog), undefined)
  if (key._tag === "Key" && key.name === "ctrl-o")
    return yield* viewed.withPermit(Effect.as(PromptLine.showTranscript(dialog), undefined))
  const now = yield* Clock.currentTimeMillis
  return yield* runAction(busy, applyKey(busy, key, now), now)
})

/** Watches running work until it ends or the user leaves. */
const watchWork = Effect.fnUntraced(function* <A, E>(
  dialog: Dialog,
  work: Pick<Work<A, E, never>, "stop" | "view">,
  fiber: Fiber.Fiber<A, E>
): Effect.fn.Return<WorkResult<A, E>, never, SessionServices> {
  const { live, options, screen } = dialog
  const viewed = yield* Semaphore.make(1)
  const busy: BusyWork = {
    dialog,
    live,
    options,
    screen,
    work,
    fiber,
    context: yield* Effect.context<SessionServices>(),
    viewed,
    isStopped: false,
    typedAt: -Infinity,
    burstAt: -Infinity
  }
  const show = showActivity(busy)
  const leave = Effect.map(
    PromptLine.readKeys(dialog, (key) => pressKey(busy, key), show, 0),
    (code): WorkResult<A, E> => ({ _tag: "Leave", code })
  )
  // The end of a turn does not interrupt a user who is scrolling through the conversation.
  const ended = Effect.flatMap(Fiber.await(fiber), (exit) =>
    viewed.withPermit(Effect.succeed<WorkResult<A, E>>({ _tag: "Ended", exit, stopped: busy.isStopped }))
  )
  const animate = Effect.andThen(Effect.repeat(show, Schedule.spaced(frameMillis)), Effect.never)
  return yield* Effect.raceAllFirst([ended, leave, animate])
})

/** Runs the work while watching the keyboard. */
export const runWork = <A, E, R>(
  dialog: Dialog,
  work: Work<A, E, R>
): Effect.Effect<WorkResult<A, E>, never, R | SessionServices> =>
  Effect.acquireUseRelease(
    // Detached, so that work that ignores its interruption is not awaited.
    Effect.forkDetach(work.run),
    (fiber) => watchWork(dialog, work, fiber),
    (fiber, exit) => (Exit.isSuccess(exit) && exit.value._tag === "Ended" ? Effect.void : interruptWork(fiber))
  ).pipe(Effect.ensuring(Effect.sync(() => dialog.screen.live(Screen.renderNothing))))
