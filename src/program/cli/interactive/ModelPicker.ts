/**
 * `/model` and `/effort`: set the model and the reasoning effort of the next turns.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Effect from "effect/Effect"
import { findClosest } from "../../../base/domain/Similarity.ts"
import { joinAlternatives } from "../Failure.ts"
import type { ModelChoice } from "../ModelChoices.ts"
import * as SafeText from "../render/SafeText.ts"
import { abbreviateCount } from "../render/UsageText.ts"
import { printError, type Dialog, type DialogCommand, printLines } from "./Dialog.ts"
import * as Picker from "./Picker.ts"
import { stay } from "./SlashCommands.ts"

type Scope = "session" | "always"

const describeChoice = ({ origin, provider, window }: ModelChoice): string =>
  [
    SafeText.toLine(provider),
    ...(window === undefined ? [] : [`${abbreviateCount(window).replace(".0", "")} tokens`]),
    ...(origin === "listed" ? [] : [origin])
  ].join(", ")

const applyChoice = Effect.fnUntraced(function* (dialog: Dialog, choice: ModelChoice, scope: Scope) {
  const {
    live,
    options: { models }
  } = dialog
  const saved = scope === "always" && models !== undefined ? yield* models.save(choice) : undefined
  yield* live.setRoute(choice.route)
  printLines(
    dialog,
    `Model: ${SafeText.toLine(choice.model)} of ${SafeText.toLine(choice.provider)}, ` +
      `${saved === undefined ? "for this session" : `saved as ${SafeText.toLine(saved)}`}.`,
    ""
  )
})

const pickModel = Effect.fnUntraced(function* (dialog: Dialog, list: ReadonlyArray<ModelChoice>) {
  const choice = yield* Picker.choose(dialog, {
    title: "Models",
    choices: list.map((value) => ({ label: SafeText.toLine(value.model), detail: describeChoice(value), value }))
  })
  if (choice === undefined) return
  const scope = yield* Picker.choose<Scope>(dialog, {
    title: choice.model,
    choices: [
      { label: "For this session", value: "session" },
      { label: "For good", detail: "model.default of config.yaml", value: "always" }
    ]
  })
  if (scope !== undefined) yield* applyChoice(dialog, choice, scope)
})

const runModelCommand = Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
  const { models } = dialog.options
  const list = models === undefined ? [] : yield* models.list
  const [, name = "", always] = /^(\S*)(?:\s+(always))?$/.exec(argument) ?? []
  if (list.length === 0) return printLines(dialog, "No models to choose from. Run `hermes model` to set one up.", "")
  if (argument === "") return yield* pickModel(dialog, list)
  const choice = list.find((one) => one.model === name)
  if (choice !== undefined) return yield* applyChoice(dialog, choice, always === undefined ? "session" : "always")
  const near = findClosest(
    name,
    list.map((one) => one.model),
    3
  )
  printLines(
    dialog,
    SafeText.toLine(
      near.length === 0
        ? `No model "${argument}". Type /model for a list.`
        : `No model "${argument}". Did you mean ${joinAlternatives(near)}?`
    ),
    ""
  )
})

const efforts = ["none", "minimal", "low", "medium", "high", "xhigh"] as const

const runEffortCommand = Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
  const { live } = dialog
  const wanted = efforts.find((one) => one === argument.toLowerCase())
  if (argument === "")
    return printLines(
      dialog,
      `Reasoning effort: ${(yield* live.state).effort ?? "from the settings"}. Set it with /effort ` +
        `${efforts.join("|")}|default.`,
      ""
    )
  if (wanted === undefined && argument !== "default")
    return printLines(dialog, `/effort takes one of ${efforts.join(", ")}, default.`, "")
  yield* live.setEffort(wanted)
  printLines(dialog, `Reasoning effort: ${wanted ?? "from the settings"}, from the next turn on.`, "")
})

/** Commands of the dialogue that choose a model and its reasoning effort. */
export const commands: ReadonlyArray<DialogCommand> = [
  {
    name: "model",
    usage: "[NAME [always]]",
    help: "Choose the model, for this session or for good",
    words: ({ options: { models } }) =>
      models === undefined
        ? Effect.succeed([])
        : Effect.map(models.list, (list) =>
            list.map((value) => ({
              label: SafeText.toLine(value.model),
              detail: describeChoice(value),
              value: value.model
            }))
          ),
    run: (argument, dialog) =>
      Effect.as(
        Effect.catch(runModelCommand(argument, dialog), (error) => Effect.sync(() => printError(dialog, error))),
        stay
      )
  },
  {
    name: "effort",
    usage: "[LEVEL]",
    help: "Show or set the reasoning effort",
    words: () => Effect.succeed([...efforts, "default"].map((value) => ({ label: value, value }))),
    run: (argument, dialog) => Effect.as(runEffortCommand(argument, dialog), stay)
  }
]
