/**
 * Panel of a session whose turn runs or waits for answers: its open questions, a text for the model, and the end of the
 * turn.
 */
import { el, make } from "../../trace/page/Elements.ts"
import type { Answered, AnswerRequest, OpenQuestion } from "../SteeringApi.ts"
import * as StudioClient from "./StudioClient.ts"
import { attempt, button, field, notice } from "./Widgets.ts"

/** Panel for the turn of a session. */
export interface SteeringPanel {
  readonly element: HTMLElement
  /** Shows the panel while the turn runs, or has open questions. */
  readonly showRun: (isRunning: boolean) => void
  /** Shows the open questions of the turn. */
  readonly showQuestions: (open: ReadonlyArray<OpenQuestion>) => void
}

const words = {
  steering: "The model receives the text with the next result of a tool.",
  queued: "The text waits for the end of the turn.",
  started: "The text began a turn."
} as const

type GiveAnswer = (answer: AnswerRequest["answer"]) => void

/** Creates the form for a typed answer, and for several choices. */
const makeTypedForm = ({ choices, typed }: OpenQuestion, giveAnswer: GiveAnswer): HTMLElement => {
  const text = make("input", { maxlength: "20000" })
  const boxes = (typed === "several" ? choices : []).map(({ label }) =>
    make("input", { type: "checkbox", value: label })
  )
  const form = make(
    "form",
    { class: "inline", "aria-label": "Typed answer" },
    ...boxes.map((box) => make("label", {}, box, ` ${box.value}`)),
    field(typed === "plan" ? "Changes to the plan" : "Other answer", text),
    make("button", { type: "submit" }, typed === "plan" ? "Go on planning" : "Answer")
  )
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    const said = text.value.trim()
    if (typed === "plan") return giveAnswer({ mode: "plan", ...(said === "" ? {} : { words: said }) })
    const answers = [
      ...boxes.filter(({ checked }) => checked).map(({ value }) => value),
      ...(said === "" ? [] : [said])
    ]
    if (answers.length > 0) giveAnswer({ answers })
  })
  return form
}

const drawQuestion = (question: OpenQuestion, giveAnswer: GiveAnswer): HTMLElement => {
  const { choices, id, text, title, typed } = question
  return make(
    "article",
    { class: "question", "data-question": id },
    el("p", "", title),
    ...(text === "" ? [] : [el("pre", "", text)]),
    ...(typed === "several" ? [] : choices.map(({ answer, label }) => button(label, () => giveAnswer(answer)))),
    ...(typed === "none" ? [] : [makeTypedForm(question, giveAnswer)])
  )
}

const describeAnswer = ({ continues }: Answered): string => {
  if (continues === undefined) return "The answer was accepted."
  return continues
    ? "The answer is stored, and the run continues."
    : "The answer is stored. The run continues when its session is opened, for example with hermes -r."
}

/** Creates the panel for the turn of a session. */
export const makeSteeringPanel = (session: string): SteeringPanel => {
  const outcome = make("div", { role: "status" })
  const showOutcome = (text: string): void => outcome.replaceChildren(notice(text))
  const questions = make("div", { role: "group", "aria-label": "Open questions" })
  const text = make("textarea", { required: "", rows: "2", maxlength: "100000" })
  const form = make(
    "form",
    { class: "inline", "aria-label": "Message to the running turn" },
    field("Message to the running turn", text),
    make("button", { type: "submit", class: "primary" }, "Send"),
    button("Cancel the turn", () => {
      void attempt(outcome, async () => {
        const { returned, stopped } = await StudioClient.cancelTurn(session)
        const rest = returned.length === 0 ? "" : ` These texts waited, and were taken back: ${returned.join("; ")}`
        showOutcome(`${stopped ? "The turn was cancelled." : "No turn was running."}${rest}`)
      })
    })
  )
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    void attempt(outcome, async () => {
      const { status } = await StudioClient.steerTurn(session, { text: text.value })
      text.value = ""
      showOutcome(words[status])
    })
  })
  const element = make("section", { class: "panel steering", "aria-label": "Running turn" }, questions, form, outcome)
  const updateVisibility = (isRunning: boolean): void => {
    form.hidden = !isRunning
    element.hidden = !isRunning && questions.children.length === 0 && outcome.children.length === 0
  }
  updateVisibility(false)
  return {
    element,
    showRun: (isRunning) => {
      // Notes about a turn end with it.
      if (!isRunning && !form.hidden) outcome.replaceChildren()
      updateVisibility(isRunning)
    },
    showQuestions: (open) => {
      // A question that stays open keeps the text that was typed into it.
      const drawn = new Map(Array.from(questions.children, (one) => [one.getAttribute("data-question"), one]))
      const giveAnswer = (question: string, answer: AnswerRequest["answer"]): void => {
        void attempt(outcome, async () => {
          showOutcome(describeAnswer(await StudioClient.answerQuestion(session, { question, answer })))
        })
      }
      questions.replaceChildren(
        ...open.map((one) => drawn.get(one.id) ?? drawQuestion(one, (answer) => giveAnswer(one.id, answer)))
      )
      updateVisibility(!form.hidden)
    }
  }
}
