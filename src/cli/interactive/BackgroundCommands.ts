/**
 * Commands about what works beside the conversation, and about messages to an agent that is busy. They do the same while it
 * works and at the prompt, as far as there is something to do.
 *
 * `/stop` ends the turn that is under way, with its children. At the prompt it ends what works in the background; with the
 * beginning of an id it ends that one, at any time.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Item } from "../../agent/BackgroundWork.ts"
import * as Redaction from "../../domain/Redaction.ts"
import * as SafeText from "../render/SafeText.ts"
import * as ToolText from "../render/ToolText.ts"
import * as Width from "../render/Width.ts"
import { type Next, stay } from "./SlashCommands.ts"
import type { Dialog, DialogCommand } from "./Dialog.ts"

const tell = (dialog: Dialog, ...lines: ReadonlyArray<string>): void => {
  for (const line of lines) dialog.note(line)
}

const line = (dialog: Dialog, { at, id, since, what }: Item, now: number): string => {
  const facts = ` · ${at} · ${ToolText.elapsed(now - since)}`
  const room = Math.max(10, dialog.screen.size().columns - Width.of(id) - Width.of(facts) - 3)
  return `${id}  ${Width.cut(SafeText.line(Redaction.redactText(what)), room)}${dialog.screen.asidePaint.text(facts, "dim")}`
}

const nothing = "No background work."

const list = Effect.fnUntraced(function*(dialog: Dialog) {
  const { background, children } = dialog.options
  const items = background === undefined ? [] : yield* background.list(dialog.current.id)
  const now = yield* Clock.currentTimeMillis
  const paused = children !== undefined && (yield* children.isPaused)
  tell(
    dialog,
    ...items.length === 0 ? [nothing] : items.map((item) => line(dialog, item, now)),
    ...paused ? ["Delegation is paused. Type /agents resume to allow it."] : [],
    ...items.length === 0 ? [] : [dialog.screen.asidePaint.text("/stop ID stops one of them", "dim")]
  )
})

const agents = Effect.fnUntraced(function*(argument: string, dialog: Dialog) {
  const { children } = dialog.options
  const word = argument.toLowerCase()
  if (word === "") return yield* list(dialog)
  if (children === undefined || (word !== "pause" && word !== "resume")) {
    return tell(dialog, "/agents lists background work; /agents pause or resume controls delegation.")
  }
  yield* children.pause(word === "pause")
  tell(dialog, word === "pause" ? "Delegation paused. Type /agents resume to allow it." : "Delegation allowed.")
})

const stopOne = Effect.fnUntraced(function*(id: string, dialog: Dialog) {
  const stopped = yield* dialog.options.background?.stop(dialog.current.id, id) ?? Effect.succeed(undefined)
  tell(dialog, stopped === undefined ? `No background work with id ${SafeText.line(id)}. /agents lists it.` : `Stopped ${stopped.id}.`)
})

const stopAll = Effect.fnUntraced(function*(dialog: Dialog) {
  const stopped = yield* dialog.options.background?.stopAll(dialog.current.id) ?? Effect.succeed([])
  tell(dialog, stopped.length === 0 ? "Nothing is running." : `Stopped ${stopped.map(({ id }) => id).join(", ")}.`)
})

/** A command that says something and ends at the prompt. */
const saying = (work: (argument: string, dialog: Dialog) => Effect.Effect<void>): DialogCommand["run"] => (argument, dialog) =>
  Effect.as(Effect.andThen(work(argument, dialog), Effect.sync(() => dialog.note(""))), stay)

/** At the prompt a message for later is one for now. */
const send = (name: string): DialogCommand["run"] => (argument, dialog) =>
  Effect.sync((): Next => {
    if (argument !== "") return { _tag: "Send", prompt: argument }
    tell(dialog, `/${name} needs a message: /${name} MESSAGE`, "")
    return stay
  })

/** A message is never taken for a command. */
const literal = (text: string): string => /^[/!]/.test(text) ? ` ${text}` : text

export const commands: ReadonlyArray<DialogCommand> = [
  {
    name: "queue",
    aliases: [],
    usage: "MESSAGE",
    help: "Send a message when the current turn is done",
    run: send("queue"),
    meanwhile: (argument, _, { queue }) =>
      Effect.sync(() => {
        if (argument !== "") queue(literal(argument))
      })
  },
  {
    name: "steer",
    aliases: [],
    usage: "MESSAGE",
    help: "Send a message to the running turn, with the next tool result",
    run: send("steer"),
    meanwhile: (argument, _, { queue, steer }) =>
      Effect.sync(() => {
        if (argument !== "" && !steer(argument)) queue(literal(argument))
      })
  },
  {
    name: "agents",
    aliases: ["tasks"],
    usage: "[pause|resume]",
    help: "List sub-agents and processes, or pause and resume delegation",
    run: saying(agents),
    meanwhile: agents
  },
  {
    name: "stop",
    aliases: [],
    usage: "[ID]",
    help: "Stop the turn, or background work",
    run: saying((id, dialog) => id === "" ? stopAll(dialog) : stopOne(id, dialog)),
    meanwhile: (id, dialog, { stop }) => id === "" ? stop : stopOne(id, dialog)
  }
]
