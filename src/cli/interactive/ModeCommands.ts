/**
 * `/mode` and `/approve`: the mode of the next turns, and the end of planning. After each answer in the mode `plan` the user is asked if it
 * is carried out, and in which mode; other words are the next message, and planning goes on.
 *
 * Source: `hermes-product.md` §1.8, `ARCHITECTURE.md` §7 (approvals).
 */
import * as Effect from "effect/Effect"
import * as PermissionMode from "../../config/PermissionMode.ts"
import type { Answer, OpenQuestion, PlanQuestion } from "../../host/HostEvent.ts"
import { planApproved } from "../../host/LiveTurns.ts"
import { either } from "../Failure.ts"
import { type Dialog, type DialogCommand, say } from "./Dialog.ts"
import * as Picker from "./Picker.ts"
import { type Next, stay } from "./SlashCommands.ts"

const help: Readonly<Record<PermissionMode.PermissionMode, string>> = {
  plan: "read only, then present a plan",
  ask: "edit the working tree, ask about commands",
  edits: "as ask, and edit files that something runs later",
  auto: "a model rules on what is asked about",
  yolo: "skip approvals; the deny lists still apply"
}

const read = (word: string): PermissionMode.PermissionMode | undefined => PermissionMode.all.find((mode) => mode === word.toLowerCase())

const modeLine = (mode: PermissionMode.PermissionMode): string => `Mode: ${mode} (${help[mode]}).`

const set = (dialog: Dialog, mode: PermissionMode.PermissionMode) =>
  dialog.live.setMode(mode).pipe(
    Effect.match({
      onFailure: ({ message }) => say(dialog, message, ""),
      onSuccess: () => say(dialog, modeLine(mode), "")
    })
  )

const choose = (dialog: Dialog, title: string, modes: ReadonlyArray<PermissionMode.PermissionMode>) =>
  Picker.choose(dialog, { title, choices: modes.map((value) => ({ label: value, detail: help[value], value })) })

const unknown = (dialog: Dialog, name: string): void => say(dialog, `/${name} takes one of ${either(PermissionMode.all)}.`, "")

const mode = Effect.fnUntraced(function*(argument: string, dialog: Dialog) {
  const wanted = argument === "" ? yield* choose(dialog, "Modes", PermissionMode.all) : read(argument)
  if (wanted !== undefined) return yield* set(dialog, wanted)
  if (argument !== "") unknown(dialog, "mode")
})

type PlanAnswer = Extract<Answer, { readonly _tag: "Plan" }>

/** Keeps planning, with nothing to say. */
const undecided: PlanAnswer = { _tag: "Plan", mode: "plan" }

const chooseForPlan = (dialog: Dialog, { modes }: PlanQuestion) =>
  Picker.choose<PlanAnswer>(dialog, {
    title: "The plan",
    choices: [
      ...modes.map((mode) => ({ label: `Approve, go on in ${mode}`, detail: help[mode], value: { _tag: "Plan" as const, mode } })),
      { label: "Keep planning", detail: "or type what to change", value: undecided }
    ],
    ofWords: (words) => ({ ...undecided, words }),
    nothing: "Enter sends this, and planning goes on."
  })

/** Asks if the plan that was presented is carried out, unless the user went on already. */
export const askForPlan = Effect.fnUntraced(function*(dialog: Dialog, { id, question }: Extract<OpenQuestion, { readonly _tag: "Plan" }>) {
  const hasGoneOn = dialog.waiting.length > 0 || dialog.editor.text !== ""
  const answer = hasGoneOn ? undecided : (yield* chooseForPlan(dialog, question)) ?? undecided
  if (answer.mode !== "plan") say(dialog, modeLine(answer.mode), "")
  // It was taken back, or another client answered it.
  yield* Effect.ignore(dialog.live.answer(id, answer))
})

const carryOut = Effect.fnUntraced(function*(dialog: Dialog, wanted: PermissionMode.PermissionMode): Effect.fn.Return<Next> {
  yield* set(dialog, wanted)
  return (yield* dialog.live.state).mode === wanted ? { _tag: "Send", prompt: planApproved } : stay
})

const approve = Effect.fnUntraced(function*(argument: string, dialog: Dialog): Effect.fn.Return<Next> {
  if ((yield* dialog.live.state).mode !== "plan") {
    say(dialog, "Not in the mode plan: there is no plan to approve.", "")
    return stay
  }
  const wanted = argument === "" ? yield* choose(dialog, "Go on in the mode", ["ask", "edits", "auto", "yolo"]) : read(argument)
  if (wanted === undefined || wanted === "plan") {
    if (argument !== "") unknown(dialog, "approve")
    return stay
  }
  return yield* carryOut(dialog, wanted)
})

const modeWords = (modes: ReadonlyArray<PermissionMode.PermissionMode>): DialogCommand["words"] => () =>
  Effect.succeed(modes.map((value) => ({ label: value, detail: help[value], value })))

export const commands: ReadonlyArray<DialogCommand> = [
  {
    name: "mode",
    usage: "[MODE]",
    help: "Choose what runs without a question: plan, ask, edits, auto or yolo",
    words: modeWords(PermissionMode.all),
    run: (argument, dialog) => Effect.as(mode(argument, dialog), stay)
  },
  { name: "approve", usage: "[MODE]", help: "Approve the plan of the mode plan, and go on in another mode", words: modeWords(["ask", "edits", "auto", "yolo"]), run: approve }
]
