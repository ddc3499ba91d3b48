/** Scores and notes of a session, and the forms that add to them. */
import { el, make } from "../../trace/page/Elements.ts"
import type { Note, RunSummary, Score, ScoreRequest } from "../StudioApi.ts"
import * as StudioClient from "./StudioClient.ts"
import { attempt, button, choice, type Column, field, table, time } from "./Widgets.ts"

/** Current scores and notes of a session. */
export interface FeedbackEntries {
  readonly scores: ReadonlyArray<Score>
  readonly notes: ReadonlyArray<Note>
  readonly runs: ReadonlyArray<RunSummary>
}

/** Explanation shown if the server is read-only. */
export const readOnly =
  "Read-only: start hermes trace serve --write to replay from a step, to steer a turn, to score and to take notes."

/** Parses a value that a user typed. It becomes a number, a boolean for yes or no, or otherwise a string. */
const parseScoreValue = (text: string): number | string | boolean => {
  const typed = text.trim()
  if (/^(yes|true)$/iu.test(typed)) return true
  if (/^(no|false)$/iu.test(typed)) return false
  const number = Number(typed)
  return typed !== "" && Number.isFinite(number) ? number : typed
}

const runLabel = (runs: ReadonlyArray<RunSummary>, id: string | undefined): string => {
  const place = runs.findIndex((run) => run.id === id)
  return place < 0 ? "session" : `run ${place + 1}`
}

const runChoice = (runs: ReadonlyArray<RunSummary>): HTMLSelectElement =>
  choice([
    ["", "the whole session"],
    ...runs.map(
      ({ id, prompt }, index) =>
        [id, `run ${index + 1}${prompt === undefined ? "" : `: ${prompt.slice(0, 40)}`}`] as const
    )
  ])

const form = (
  title: string,
  action: string,
  fields: ReadonlyArray<HTMLElement>,
  submit: (problem: HTMLElement) => Promise<void>
): HTMLElement => {
  const problem = el("div")
  const made = make(
    "form",
    { class: "inline", "aria-label": title },
    ...fields,
    make("button", { type: "submit", class: "primary" }, action),
    problem
  )
  made.addEventListener("submit", (event) => {
    event.preventDefault()
    void submit(problem)
  })
  return made
}

const of = (run: string): { readonly run?: string } => (run === "" ? {} : { run })

/** Creates the view of scores and notes. `changed` is called after one of them is added or removed. */
export const feedback = (
  session: string,
  { notes, runs, scores }: FeedbackEntries,
  isWritable: boolean,
  changed: () => void
): HTMLElement => {
  const box = make("section", { class: "panel feedback" })
  const problem = el("div")
  const send = async (request: ScoreRequest, place: HTMLElement): Promise<void> =>
    attempt(place, async () => {
      await StudioClient.score(session, request)
      changed()
    })
  const takeBack = ({ name, run }: Score): HTMLElement =>
    button("Take back", () => void send({ name, value: null, ...of(run ?? "") }, problem), {
      class: "small",
      "aria-label": `Take the score ${name} back`
    })
  const columns: ReadonlyArray<Column<Score>> = [
    { head: "Score", cell: ({ name }) => name, left: true },
    { head: "Value", cell: ({ value }) => (typeof value === "boolean" ? (value ? "yes" : "no") : String(value)) },
    { head: "Of", cell: ({ run }) => runLabel(runs, run), left: true },
    { head: "Comment", cell: ({ comment = "" }) => comment, left: true },
    { head: "Time", cell: ({ at }) => time(at), left: true },
    { head: "", cell: (score) => (isWritable ? takeBack(score) : ""), left: true }
  ]
  if (!isWritable) box.append(el("p", "dim", readOnly))
  box.append(
    el("h2", "", "Scores"),
    scores.length === 0 ? el("p", "dim", "No score yet.") : table("Scores", scores, columns),
    problem
  )
  const name = make("input", { required: "", maxlength: "100", placeholder: "correctness" })
  const value = make("input", { required: "", maxlength: "200", placeholder: "0.8, yes, good" })
  const comment = make("input", { maxlength: "2000" })
  const scored = runChoice(runs)
  if (isWritable) {
    box.append(
      form(
        "Add a score",
        "Add score",
        [field("Name", name), field("Value", value), field("Comment", comment), field("Of", scored)],
        (place) =>
          send(
            {
              name: name.value.trim(),
              value: parseScoreValue(value.value),
              ...of(scored.value),
              ...(comment.value.trim() === "" ? {} : { comment: comment.value.trim() })
            },
            place
          )
      )
    )
  }
  box.append(el("h2", "", "Notes"))
  if (notes.length === 0) box.append(el("p", "dim", "No note yet."))
  for (const note of notes) {
    const place = note.position === undefined ? runLabel(runs, note.run) : `message ${note.position + 1}`
    box.append(
      make(
        "article",
        { class: "note" },
        make("header", {}, time(note.at), el("span", "dim", place)),
        el("p", "", note.text)
      )
    )
  }
  const text = make("textarea", { required: "", rows: "3", maxlength: "20000" })
  const noted = runChoice(runs)
  if (isWritable) {
    box.append(
      form("Add a note", "Add note", [field("Note", text), field("Of", noted)], (place) =>
        attempt(place, async () => {
          await StudioClient.note(session, { text: text.value, ...of(noted.value) })
          changed()
        })
      )
    )
  }
  return box
}

/** Opens the form for a note on a message. `changed` is called after the note is saved. */
export const openNote = (session: string, position: number, changed: () => void): void => {
  const text = make("textarea", { required: "", rows: "4", maxlength: "20000" })
  const problem = el("div")
  const dialog = make("dialog", { class: "form", "aria-labelledby": "noteTitle" })
  const made = make(
    "form",
    { method: "dialog" },
    make("h2", { id: "noteTitle" }, `Note on message ${position + 1}`),
    field("Note", text),
    problem,
    make(
      "div",
      { class: "actions" },
      make("button", { type: "submit", class: "primary" }, "Add note"),
      button("Cancel", () => dialog.close())
    )
  )
  made.addEventListener("submit", (event) => {
    event.preventDefault()
    void attempt(problem, async () => {
      await StudioClient.note(session, { text: text.value, position })
      dialog.close()
      changed()
    })
  })
  dialog.append(made)
  dialog.addEventListener("close", () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
}
