/**
 * The form for a replay. It starts from a message, with a different prompt or model, or after a step, with a different
 * result of a call.
 */
import { el, make } from "../../trace/page/Elements.ts"
import type { Message, ReplayRequest, ResultPart } from "../StudioApi.ts"
import { go, toSession } from "./Router.ts"
import * as StudioClient from "./StudioClient.ts"
import { attempt, button, choice, field } from "./Widgets.ts"

/** Message, and optionally result, from which a replay can start. */
interface Subject {
  readonly session: string
  readonly message: Message
  /** The result to replace. `message` is then the message that contains it. */
  readonly result: ResultPart | undefined
  readonly models: ReadonlyArray<string>
}

const joinPrompt = ({ parts }: Message): string =>
  parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")

const textArea = (value: string): HTMLTextAreaElement => {
  const made = make("textarea", { rows: "8", spellcheck: "true" })
  made.value = value
  return made
}

/** Builds the request from the fields of the form. Unchanged fields are left out. */
const buildRequest = ({ message, result }: Subject, text: string, model: string): ReplayRequest => {
  const other = model === "" ? {} : { model }
  if (result !== undefined) return { ...other, result: { callId: result.id, text } }
  const { position } = message
  const place = position === undefined ? {} : { position }
  return { ...place, ...other, ...(message.role === "user" && text !== joinPrompt(message) ? { prompt: text } : {}) }
}

const titles = {
  user: "Replay from this prompt",
  assistant: "Ask for this answer again",
  result: "Replay with another result"
} as const

const explanations = {
  user: "The session is copied up to this prompt and runs again, as a new session. Tools run for real.",
  assistant:
    "The session is copied up to this answer, and the model answers again, as a new session. Tools run for real.",
  result:
    "The session is copied up to this step, and the model goes on from the result that you write, as a new session. " +
    "Tools run for real."
} as const

/** Opens the form. After the replay has started, the page navigates to the new session. */
export const openReplay = (subject: Subject): void => {
  const { message, models, result, session } = subject
  const kind = result !== undefined ? "result" : message.role === "user" ? "user" : "assistant"
  const text = textArea(result?.text ?? joinPrompt(message))
  const model = choice([["", "as before"], ...models.map((name) => [name, name] as const)])
  const problem = el("div")
  const dialog = make("dialog", { class: "form", "aria-labelledby": "replayTitle" })
  const start = make("button", { type: "submit", class: "primary" }, "Start")
  const form = make(
    "form",
    { method: "dialog" },
    make("h2", { id: "replayTitle" }, titles[kind]),
    el("p", "dim", explanations[kind]),
    ...(kind === "assistant"
      ? []
      : [field(kind === "user" ? "Prompt" : `Result of ${result?.name ?? "the call"}`, text)]),
    ...(models.length === 0 ? [] : [field("Model", model)]),
    problem,
    make(
      "div",
      { class: "actions" },
      start,
      button("Cancel", () => dialog.close())
    )
  )
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    start.disabled = true
    void attempt(problem, async () => {
      const made = await StudioClient.replay(session, buildRequest(subject, text.value, model.value))
      dialog.close()
      go(toSession(made.session))
    }).finally(() => {
      start.disabled = false
    })
  })
  dialog.append(form)
  dialog.addEventListener("close", () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
}
