/**
 * The prompt while the agent or a user command is working: the current activity is shown, Ctrl+C stops it, and typed
 * input waits for its turn.
 *
 * The first Ctrl+C asks the work to stop, a second one within two seconds leaves the program. Leaving waits for the
 * work to end, but no longer than {@link graceMillis}. Nothing that waits begins behind work that was stopped: it goes
 * back into the prompt.
 *
 * Input that is sent meanwhile is done afterwards (`display.busy_input_mode: queue`), or stops the work first
 * (`interrupt`), or reaches the model with the next tool result (`steer`). Commands about the work itself (`/stop`,
 * `/steer`, `/agents`, …) are never kept waiting.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
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

/** Time that leaving waits for the work to end. */
const graceMillis = 1500

/** A pause in typing after which a question was seen. */
const pauseMillis = 700

/** True for a line that is for the shell or for the memory, and no message. */
const isShell = (line: string): boolean => /^!+\s*[^!\s]/.test(line) || /^#\s*\S[^\n]*$/.test(line)

/** A message is never taken for a command. */
const toPlainMessage = (text: string): string => (/^[/!#]/.test(text) ? ` ${text}` : text)

/** Effect of a key on the line that it edits. */
interface KeyEffect {
  readonly action: Editor.Action
  readonly question: Questions.Pending | undefined
}

/** Something that takes its time. */
interface Work<A, E, R> {
  readonly run: Effect.Effect<A, E, R>
  /** Asks it to end; false when that cannot be asked, and it is interrupted. */
  readonly stop: Effect.Effect<boolean>
  /** Lines about the current activity. */
  readonly view: (size: Screen.Size, now: number) => ReadonlyArray<string>
}

/** Result of the work: ended, or left with the program. */
type WorkResult<A, E> =
  | { readonly _tag: "Ended"; readonly exit: Exit.Exit<A, E>; readonly stopped: boolean }
  | { readonly _tag: "Leave"; readonly code: number }

/** The lines above what is typed, which is a line for the session or the answer to a question. */
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

/** Interrupts what may not end, and waits a while for it to end. */
const interruptWork = (fiber: Fiber.Fiber<unknown, unknown>): Effect.Effect<unknown> =>
  Effect.suspend(() => {
    fiber.interruptUnsafe()
    return Effect.raceFirst(Effect.interruptible(Fiber.await(fiber)), Effect.interruptible(Effect.sleep(graceMillis)))
  })

/** Watches work that is under way until it ends, or the user leaves. */
const watchWork = Effect.fnUntraced(function* <A, E>(
  dialog: Dialog,
  work: Pick<Work<A, E, never>, "stop" | "view">,
  fiber: Fiber.Fiber<A, E>
): Effect.fn.Return<WorkResult<A, E>, never, SessionServices> {
  const context = yield* Effect.context<SessionServices>()
  const { live, options, screen } = dialog
  /** Held as long as the conversation is gone through. */
  const viewed = yield* Semaphore.make(1)
  let stopped = false
  let typedAt = -Infinity
  let burstAt = -Infinity

  /**
   * The question that typed input answers now. A user who was typing when it appeared has not seen it yet, so that
   * input is not an answer.
   */
  const findAskedQuestion = (now: number): Questions.Pending | undefined => {
    const { asked } = dialog
    return asked !== undefined && (now - typedAt >= pauseMillis || burstAt >= asked.shownAt) ? asked : undefined
  }

  const stopping = [screen.asidePaint.text("┊ stopping · Ctrl+C again exits", "dim")]
  const show = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const state = yield* live.state
    const lines = stopped || state.turn?.isStopping === true ? stopping : work.view(screen.size(), now)
    screen.live(makeView(dialog, state, lines, findAskedQuestion(now) ?? dialog))
  })

  const stopWork = Effect.gen(function* () {
    stopped = true
    if (!(yield* work.stop)) yield* Effect.forkDetach(Fiber.interrupt(fiber))
  })

  /** Stops the work, and puts what waits behind it back into the prompt. */
  const stop = Effect.gen(function* () {
    // Before the work ends, which would begin what is next.
    const messages = yield* live.takeBack
    const lines = [
      ...messages.map(
        ({ id, prompt, shown }) => dialog.sent.get(id)?.text ?? (typeof prompt === "string" ? prompt : shown)
      ),
      ...dialog.waiting.splice(0).map(({ text }) => text)
    ]
    for (const { id } of messages) dialog.sent.delete(id)
    yield* stopWork
    if (lines.length === 0) return
    PromptLine.putBack(dialog, lines)
    const what = lines.length === 1 ? "What waited is" : `The ${lines.length} lines that waited are`
    showNote(dialog, screen.asidePaint.text(`${what} back in the prompt.`, "dim"))
  })

  /**
   * Keeps a line for afterwards; a message may go into the turn instead. Lines stay in the order in which they were
   * typed.
   */
  const queueLine = Effect.fnUntraced(function* (line: TypedLine, busy: "queue" | "steer") {
    const isMessage = SlashCommands.parse(line.text) === undefined && !isShell(line.text)
    if (isMessage && dialog.waiting.length === 0) {
      yield* rememberLine(dialog, line)
      const prompt = yield* attachNamedFiles(dialog, line.text.trim())
      const { message } = yield* live.send({ prompt, shown: line.shown, busy })
      dialog.sent.set(message.id, line)
    } else dialog.waiting.push(line)
  })

  const submitLine = Effect.fnUntraced(function* (line: TypedLine) {
    if (line.text.trim() === "") return
    const command = SlashCommands.parse(line.text)
    const found = command === undefined ? undefined : SlashCommands.find(dialog.commands, command.name)
    if (command !== undefined && found?._tag === "Command" && found.command.meanwhile !== undefined) {
      return yield* found.command.meanwhile(command.argument, dialog, {
        stop,
        send: (text, busy) =>
          Effect.provideContext(queueLine({ shown: toPlainMessage(text), text: toPlainMessage(text) }, busy), context)
      })
    }
    const { busyInputMode } = options.display
    const isMessage = command === undefined && !isShell(line.text)
    yield* queueLine(line, isMessage && busyInputMode === "steer" ? "steer" : "queue")
    if (isMessage && busyInputMode === "interrupt") yield* stopWork
  })

  const answerQuestion = Effect.fnUntraced(function* (pending: Questions.Pending, line: string) {
    const answers = Questions.readAnswer(pending.shown, line)
    if (answers === undefined) return
    showNote(
      dialog,
      PromptLine.renderMark(screen.asidePaint) + SafeText.toLine(Redaction.redactText(answers.join(", ")))
    )
    // Another client may have answered first, or the turn is over.
    yield* Effect.catchTag(live.answer(pending.id, pending.parseAnswer(answers)), "AnswerRejected", ({ message }) =>
      Effect.sync(() => showNote(dialog, screen.asidePaint.text(SafeText.toLine(message), "dim")))
    )
  })

  /** A key goes to the question that is asked, else to the line that is typed. */
  const applyKey = (key: Keys.Key, now: number): KeyEffect => {
    const question = findAskedQuestion(now)
    if (now - typedAt >= pauseMillis) burstAt = now
    typedAt = now
    const edited = question ?? dialog
    const { action, state } = Editor.apply(edited.editor, key, question === undefined ? options.history.entries() : [])
    edited.editor = state
    return { action, question }
  }

  const pressKey = Effect.fnUntraced(function* (key: Keys.Key) {
    if (key._tag === "Key" && key.name === "backtab") return yield* Effect.as(PromptLine.switchMode(dialog), undefined)
    if (key._tag === "Key" && key.name === "ctrl-o")
      return yield* viewed.withPermit(Effect.as(PromptLine.showTranscript(dialog), undefined))
    const now = yield* Clock.currentTimeMillis
    const { action, question } = applyKey(key, now)
    switch (action._tag) {
      case "Submit":
        yield* question === undefined
          ? submitLine(PromptLine.toLine(action))
          : answerQuestion(question, PromptLine.toLine(action).text)
        return undefined
      case "Escape":
        yield* stop
        return undefined
      case "TooLarge":
        showNote(dialog, PromptLine.describeLargePaste(screen.asidePaint, action.characters))
        return undefined
      case "Interrupt": {
        if (now - dialog.interruptedAt < PromptLine.leaveMillis) return PromptLine.interruptedCode
        dialog.interruptedAt = now
        yield* stop
        return undefined
      }
      case "Suspend":
        yield* PromptLine.suspend(dialog)
        return undefined
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

  const leave = Effect.map(PromptLine.readKeys(dialog, pressKey, show, 0), (code): WorkResult<A, E> => ({
    _tag: "Leave",
    code
  }))
  // A user who goes through the conversation is not taken out of it by the end of the turn.
  const ended = Effect.flatMap(Fiber.await(fiber), (exit) =>
    viewed.withPermit(Effect.succeed<WorkResult<A, E>>({ _tag: "Ended", exit, stopped }))
  )
  const animate = Effect.forever(Effect.andThen(show, Effect.sleep(frameMillis)))

  return yield* Effect.raceAllFirst([ended, leave, animate])
})

/** Does the work with the keyboard watched. */
export const runWork = <A, E, R>(
  dialog: Dialog,
  work: Work<A, E, R>
): Effect.Effect<WorkResult<A, E>, never, R | SessionServices> =>
  Effect.acquireUseRelease(
    // Detached, so that work that does not end when interrupted is not awaited.
    Effect.forkDetach(work.run),
    (fiber) => watchWork(dialog, work, fiber),
    (fiber, exit) => (Exit.isSuccess(exit) && exit.value._tag === "Ended" ? Effect.void : interruptWork(fiber))
  ).pipe(Effect.ensuring(Effect.sync(() => dialog.screen.live(Screen.renderNothing))))
