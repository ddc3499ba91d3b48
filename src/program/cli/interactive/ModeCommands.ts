/**
 * `/mode` and `/approve`: set the mode of the next turns, and end planning. After each answer in the mode `plan`, the
 * user is asked whether to carry out the plan, and in which mode. Other text is the next message, and planning
 * continues.
 *
 * Source: `hermes-product.md` §1.8, `ARCHITECTURE.md` §7 (approvals).
 */
import * as Effect from "effect/Effect"
import * as PermissionMode from "../../../base/config/PermissionMode.ts"
import type { Answer, OpenQuestion, PlanQuestion } from "../../../serve/host/HostEvent.ts"
import { planApproved } from "../../../serve/host/LiveTurns.ts"
import { joinAlternatives } from "../Failure.ts"
import { type Dialog, type DialogCommand, printLines } from "./Dialog.ts"
import * as Picker from "./Picker.ts"
import { type Next, stay } from "./SlashCommands.ts"

const help: Readonly<Record<PermissionMode.PermissionMode, string>> = {
  plan: "read only, then present a plan",
  ask: "edit the working tree, ask about commands",
  edits: "as ask, but also edit files that run later",
  auto: "a model decides instead of you",
  yolo: "skip approvals; the deny lists still apply"
}

const parseMode = (word: string): PermissionMode.PermissionMode | undefined =>
  PermissionMode.all.find((mode) => mode === word.toLowerCase())

const formatMode = (mode: PermissionMode.PermissionMode): string => `Mode: ${mode} (${help[mode]}).`

const setMode = (dialog: Dialog, mode: PermissionMode.PermissionMode) =>
  dialog.live
    .setMode(mode)
    .pipe(
      Effect.match({
        onFailure: ({ message }) => printLines(dialog, message, ""),
        onSuccess: () => printLines(dialog, formatMode(mode), "")
      })
    )

const chooseMode = (dialog: Dialog, title: string, modes: ReadonlyArray<PermissionMode.PermissionMode>) =>
  Picker.choose(dialog, { title, choices: modes.map((value) => ({ label: value, detail: help[value], value })) })

const reportUnknownMode = (dialog: Dialog, name: string): void =>
  printLines(dialog, `/${name} takes one of ${joinAlternatives(PermissionMode.all)}.`, "")

const runModeCommand = Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
  const wanted = argument === "" ? yield* chooseMode(dialog, "Modes", PermissionMode.all) : parseMode(argument)
  if (wanted !== undefined) return yield* setMode(dialog, wanted)
  if (argument !== "") reportUnknownMode(dialog, "mode")
})

type PlanAnswer = Extract<Answer, { readonly _tag: "Plan" }>

/** Answer that continues planning without a message. */
const undecided: PlanAnswer = { _tag: "Plan", mode: "plan" }

const chooseForPlan = (dialog: Dialog, { modes }: PlanQuestion) =>
  Picker.choose<PlanAnswer>(dialog, {
    title: "The plan",
    choices: [
      ...modes.map((mode) => ({
        label: `Approve, continue in ${mode} mode`,
        detail: help[mode],
        value: { _tag: "Plan" as const, mode }
      })),
      { label: "Keep planning", detail: "or type what to change", value: undecided }
    ],
    ofWords: (words) => ({ ...undecided, words }),
    nothing: "Press Enter to send this and continue planning."
  })

/** Asks whether to carry out the presented plan, unless the user has already continued. */
export const askForPlan = Effect.fnUntraced(function* (
  dialog: Dialog,
  { id, question }: Extract<OpenQuestion, { readonly _tag: "Plan" }>
) {
  const hasGoneOn = dialog.waiting.length > 0 || dialog.editor.text !== ""
  const answer = hasGoneOn ? undecided : ((yield* chooseForPlan(dialog, question)) ?? undecided)
  if (answer.mode !== "plan") printLines(dialog, formatMode(answer.mode), "")
  // The question may have been withdrawn, or another client may have answered it.
  yield* Effect.ignore(dialog.live.answer(id, answer))
})

const carryOut = Effect.fnUntraced(function* (
  dialog: Dialog,
  wanted: PermissionMode.PermissionMode
): Effect.fn.Return<Next> {
  yield* setMode(dialog, wanted)
  return (yield* dialog.live.state).mode === wanted ? { _tag: "Send", prompt: planApproved } : stay
})

const approvePlan = Effect.fnUntraced(function* (argument: string, dialog: Dialog): Effect.fn.Return<Next> {
  if ((yield* dialog.live.state).mode !== "plan") {
    printLines(dialog, "Not in plan mode: there is no plan to approve.", "")
    return stay
  }
  const wanted =
    argument === ""
      ? yield* chooseMode(dialog, "Continue in mode", ["ask", "edits", "auto", "yolo"])
      : parseMode(argument)
  if (wanted === undefined || wanted === "plan") {
    if (argument !== "") reportUnknownMode(dialog, "approve")
    return stay
  }
  return yield* carryOut(dialog, wanted)
})

const makeModeWords =
  (modes: ReadonlyArray<PermissionMode.PermissionMode>): DialogCommand["words"] =>
  () =>
    Effect.succeed(modes.map((value) => ({ label: value, detail: help[value], value })))

/** Commands of the dialogue that change the mode of approvals. */
export const commands: ReadonlyArray<DialogCommand> = [
  {
    name: "mode",
    usage: "[MODE]",
    help: "Choose the permission mode: plan, ask, edits, auto or yolo",
    words: makeModeWords(PermissionMode.all),
    run: (argument, dialog) => Effect.as(runModeCommand(argument, dialog), stay)
  },
  {
    name: "approve",
    usage: "[MODE]",
    help: "Approve the plan, and continue in another mode",
    words: makeModeWords(["ask", "edits", "auto", "yolo"]),
    run: approvePlan
  }
]
