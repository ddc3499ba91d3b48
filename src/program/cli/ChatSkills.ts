/**
 * Skills that the user chooses for a conversation: `--skills` of `hermes chat`, and `/skills`, `/skill NAME` and
 * `/NAME` of a session. The text of a chosen skill precedes the user's text in the same message.
 *
 * Source: `hermes-product.md` §1.2 and §1.8.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import type { RunInput } from "../../agent/RunInput.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import type { SkillRefused, Service as SkillStore } from "../../tools/prompt/SkillStore.ts"
import * as SkillText from "../../tools/prompt/SkillText.ts"
import { type Failure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { printError, type Dialog, type DialogCommand, printLines } from "./interactive/Dialog.ts"
import { type Next, stay } from "./interactive/SlashCommands.ts"
import * as SafeText from "./render/SafeText.ts"
import * as UsageText from "./render/UsageText.ts"

/** Maximum number of skills in one message. */
const maxStacked = 5

/** Names of the commands that are always available. */
export const commandNames = ["skills", "skill"]

/** Reads the text of each skill in order. A repeated skill is read only once. */
const readSkillTexts = (
  skills: SkillStore,
  names: ReadonlyArray<string>,
  session: string
): Effect.Effect<string, SkillRefused> =>
  Effect.map(
    Effect.forEach(Array.from(new Set(names)), (name) =>
      Effect.map(skills.view(name, { session }), SkillText.renderMessage)
    ),
    (texts) => texts.join("\n\n")
  )

/** Returns the text of the skills named by `--skills`, or `undefined` without the flag. */
export const preloadSkills = (
  skills: SkillStore,
  { skills: given }: Pick<Flags.Chat, "skills">,
  session: string
): Effect.Effect<string | undefined, Failure> => {
  const names = given.flatMap(Flags.splitNames)
  return names.length === 0
    ? Effect.undefined
    : Effect.mapError(readSkillTexts(skills, names, session), ({ message }) =>
        makeUsageFailure(`--skills: ${SafeText.toLine(message)}`)
      )
}

/** Adds the text of skills before a prompt. */
export const withSkills = (text: string | undefined, prompt: RunInput["prompt"]): RunInput["prompt"] => {
  if (text === undefined) return prompt
  return typeof prompt === "string" ? `${text}\n\n${prompt}` : [Prompt.textPart({ text }), ...prompt]
}

/** Splits the names of additional skills from the beginning of an argument: `/b /c do it`. */
const splitStackedSkills = (
  argument: string,
  known: ReadonlySet<string>
): { readonly names: ReadonlyArray<string>; readonly text: string } => {
  const names: Array<string> = []
  let text = argument
  while (names.length < maxStacked - 1) {
    const [whole = "", name = ""] = /^\/([\w-]+)(?:\s+|$)/.exec(text) ?? []
    if (!known.has(name)) break
    names.push(name)
    text = text.slice(whole.length)
  }
  return { names, text: text.trim() }
}

/** Sends the text of skills, followed by the text that the user typed after their names. */
const sendSkills = Effect.fnUntraced(function* (
  skills: SkillStore,
  name: string,
  argument: string,
  dialog: Dialog
): Effect.fn.Return<Next> {
  const { skills: known } = yield* skills.catalogue
  const { names, text } = splitStackedSkills(argument, new Set(known.map((skill) => skill.name)))
  const { session } = yield* dialog.live.state
  return yield* readSkillTexts(skills, [name, ...names], session.id).pipe(
    Effect.map((found): Next => ({
      _tag: "Send",
      prompt: `${found}\n\n${text === "" ? "Follow the skill above." : text}`
    })),
    Effect.catch(({ message }) =>
      Effect.sync(() => {
        printError(dialog, new Error(message))
        return stay
      })
    )
  )
})

const showSkills =
  (skills: SkillStore): DialogCommand["run"] =>
  (_, dialog) =>
    Effect.map(
      Effect.all([skills.catalogue, Effect.orElseSucceed(skills.proposals.list, () => [])]),
      ([{ problems, skills }, waiting]) => {
        const rows = skills.map(
          ({ facts, name, path }) =>
            [
              SafeText.toLine(`/${skills.filter((other) => other.name === name).length > 1 ? `skill ${path}` : name}`),
              SafeText.toLine(facts.description)
            ] as const
        )
        printLines(
          dialog,
          ...(rows.length === 0
            ? ["No skills. Install one with `hermes skills install`."]
            : UsageText.renderPairs(rows)),
          ...(problems.length === 0
            ? []
            : [dialog.screen.asidePaint.text(`${problems.length} invalid: see \`hermes skills check\``, "yellow")]),
          ...(waiting.length === 0
            ? []
            : [
                dialog.screen.asidePaint.text(
                  `${waiting.length} proposed by reviews: see \`hermes skills proposed\``,
                  "yellow"
                )
              ]),
          ""
        )
        return stay
      }
    )

/** Creates the slash commands for skills. A skill created later is available through `/skill NAME`. */
export const makeCommands = (skills: SkillStore): Effect.Effect<ReadonlyArray<DialogCommand>> =>
  Effect.map(skills.catalogue, ({ skills: known }) => [
    { name: "skills", help: "List the skills", run: showSkills(skills) },
    {
      name: "skill",
      usage: "NAME [MESSAGE]",
      help: "Follow a skill",
      run: (argument, dialog) => {
        const [, name = "", text = ""] = /^\/?(\S+)\s*([^]*)$/.exec(argument) ?? []
        if (name !== "") return sendSkills(skills, name, text, dialog)
        return Effect.sync(() => {
          printLines(dialog, "No skill given. Use /skill NAME; /skills lists them.", "")
          return stay
        })
      }
    },
    ...Array.from(new Set(known.map(({ name }) => name)), (name): DialogCommand => ({
      name,
      usage: "[MESSAGE]",
      help: TextCut.shorten(SafeText.toLine(known.find((skill) => skill.name === name)?.facts.description ?? ""), 100),
      run: (argument, dialog) => sendSkills(skills, name, argument, dialog)
    }))
  ])
