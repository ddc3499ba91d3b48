/**
 * Commands for background work: sub-agents, processes and queued messages.
 *
 * Source: `hermes-product.md` §1.8 and §6.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Item } from "../../../agent/BackgroundWork.ts"
import { Children } from "../../../agent/Children.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import * as SafeText from "../render/SafeText.ts"
import * as ToolText from "../render/ToolText.ts"
import * as Width from "../render/Width.ts"
import { type Dialog, type DialogCommand, makeArgumentWords, type SessionServices, showNote } from "./Dialog.ts"
import { type Next, stay } from "./SlashCommands.ts"

/** Prints lines. While an answer is being written, the lines appear between its parts. */
const printNotes = (dialog: Dialog, ...lines: ReadonlyArray<string>): void => {
  for (const line of lines) showNote(dialog, line)
}

const formatWork = (dialog: Dialog, { at, id, since, what }: Item, now: number): string => {
  const facts = ` · ${at} · ${ToolText.formatElapsed(now - since)}`
  const room = Math.max(10, dialog.screen.size().columns - Width.measure(id) - Width.measure(facts) - 3)
  return `${id}  ${Width.cut(SafeText.toLine(Redaction.redactText(what)), room)}${dialog.screen.asidePaint.text(facts, "dim")}`
}

const listWork = Effect.fnUntraced(function* (dialog: Dialog) {
  const items = yield* dialog.live.background.list
  const now = yield* Clock.currentTimeMillis
  const paused = yield* Children.use(({ isPaused }) => isPaused)
  printNotes(
    dialog,
    ...(items.length === 0 ? ["No background work."] : items.map((item) => formatWork(dialog, item, now))),
    ...(paused ? ["Delegation is paused. Type /agents resume to allow it."] : []),
    ...(items.length === 0 ? [] : [dialog.screen.asidePaint.text("/stop ID stops one of them", "dim")])
  )
})

const manageAgents = Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
  const word = argument.toLowerCase()
  if (word === "") return yield* listWork(dialog)
  if (word !== "pause" && word !== "resume") {
    return printNotes(dialog, "/agents lists background work; /agents pause or resume controls delegation.")
  }
  yield* Children.use(({ pause }) => pause(word === "pause"))
  printNotes(dialog, word === "pause" ? "Delegation paused. Type /agents resume to allow it." : "Delegation allowed.")
})

const stopOne = Effect.fnUntraced(function* (id: string, dialog: Dialog) {
  const stopped = yield* dialog.live.background.stop(id)
  printNotes(
    dialog,
    stopped === undefined
      ? `No background work with id ${SafeText.toLine(id)}. Type /agents for a list.`
      : `Stopped ${stopped.id}.`
  )
})

const stopAll = Effect.fnUntraced(function* (dialog: Dialog) {
  const stopped = yield* dialog.live.background.stopAll
  printNotes(
    dialog,
    stopped.length === 0 ? "Nothing is running." : `Stopped ${stopped.map(({ id }) => id).join(", ")}.`
  )
})

/** Creates a command that prints text and ends at the prompt. */
const makeReportCommand =
  (work: (argument: string, dialog: Dialog) => Effect.Effect<void, never, SessionServices>): DialogCommand["run"] =>
  (argument, dialog) =>
    Effect.as(
      Effect.andThen(
        work(argument, dialog),
        Effect.sync(() => showNote(dialog, ""))
      ),
      stay
    )

/** Creates the action of a command that sends a message. At the prompt, a message for later is sent immediately. */
const makeSendCommand =
  (name: string): DialogCommand["run"] =>
  (argument, dialog) =>
    Effect.sync((): Next => {
      if (argument !== "") return { _tag: "Send", prompt: argument }
      printNotes(dialog, `/${name} needs a message: /${name} MESSAGE`, "")
      return stay
    })

/** Commands for messages and background work, which also work during a turn. */
export const commands: ReadonlyArray<DialogCommand> = [
  {
    name: "queue",
    usage: "MESSAGE",
    help: "Send a message when the current turn is done",
    run: makeSendCommand("queue"),
    meanwhile: (argument, _, { send }) => (argument === "" ? Effect.void : send(argument, "queue"))
  },
  {
    name: "steer",
    usage: "MESSAGE",
    help: "Send a message to the current turn, with the next tool result",
    run: makeSendCommand("steer"),
    meanwhile: (argument, _, { send }) => (argument === "" ? Effect.void : send(argument, "steer"))
  },
  {
    name: "agents",
    aliases: ["tasks"],
    usage: "[pause|resume]",
    words: makeArgumentWords({ pause: "start no more sub-agents", resume: "allow them again" }),
    help: "List sub-agents and processes, or pause and resume delegation",
    run: makeReportCommand(manageAgents),
    meanwhile: manageAgents
  },
  {
    name: "stop",
    usage: "[ID]",
    help: "Stop the turn, or background work",
    run: makeReportCommand((id, dialog) => (id === "" ? stopAll(dialog) : stopOne(id, dialog))),
    meanwhile: (id, dialog, { stop }) => (id === "" ? stop : stopOne(id, dialog))
  }
]
