/**
 * The toolset `skills`: `skills_list`, `skill_view` and `skill_manage` for the user's skills.
 *
 * **Details**
 *
 * A model finds a skill through the index in its prompt or `skills_list`, and reads it and its files with `skill_view`.
 * A text is not returned again while the conversation still contains it. `skill_manage` stores a procedure as a skill
 * and corrects it. Each of its calls needs an approval, like a write outside the working tree, because later sessions
 * follow the skill.
 *
 * **Example** (An agent with skills)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { mkdtempSync } from "node:fs"
 * import { tmpdir } from "node:os"
 * import { join } from "node:path"
 * import { Agent, Runtime } from "hermes-effect"
 * import { SkillStore } from "hermes-effect/prompt"
 * import { SkillTools } from "hermes-effect/tools/planning"
 *
 * const home = mkdtempSync(join(tmpdir(), "skills-"))
 *
 * const locations = { directory: join(home, "skills"), database: join(home, "state.db") }
 *
 * const agent = Runtime.layer({ tools: [SkillTools.toolset] }).pipe(
 *   Layer.provide(SkillStore.layer({ ...locations, os: "linux" })),
 *   Layer.provide(NodeServices.layer)
 * )
 *
 * console.log((await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Reply exactly hello" }), agent))).text)
 * // => hello
 * ```
 *
 * Commands in the text of a skill (`` !`git log` ``) run when the model reads it only if `InlineShell` is true; the
 * default is false.
 *
 * Source: `hermes-product.md` §2.3 (skills_list, skill_view, skill_manage).
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Ids from "../../base/domain/Ids.ts"
import * as Json from "../../base/domain/Json.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import * as SkillStore from "../prompt/SkillStore.ts"
import type { Concern } from "../approval/ApprovalRequest.ts"
import { ConversationHistory, NestedCalls, type NestedOutcome, ToolContext } from "../ToolContext.ts"
import * as Toolset from "../Toolset.ts"
import { InlineShell } from "./BuiltinSettings.ts"

const Failure = Schema.Struct({ success: Schema.Literal(false), error: Schema.String })

const failSkillCall = (error: string) => Effect.fail({ success: false as const, error })

/** The tool `skills_list`. */
export const list = Tool.make("skills_list", {
  description: "List the skills and what each is for. Load one with skill_view before you do what it describes.",
  parameters: Schema.Struct({ category: Schema.optionalKey(Schema.String) }),
  success: Schema.Struct({
    success: Schema.Literal(true),
    skills: Schema.Array(Schema.Struct({ name: Schema.String, category: Schema.String, description: Schema.String })),
    categories: Schema.Array(Schema.String),
    count: Schema.Natural
  }),
  failure: Failure,
  failureMode: "return"
})
  .annotate(Tool.Readonly, true)
  .annotate(Tool.Destructive, false)

const Viewed = Schema.Struct({
  success: Schema.Literal(true),
  name: Schema.String,
  description: Schema.String,
  /** Absolute path of the directory in which scripts of the skill run. */
  directory: Schema.String,
  file: Schema.optionalKey(Schema.String),
  content: Schema.String,
  linked_files: Schema.Array(Schema.String),
  readiness_status: Schema.Literals(["available", "setup_needed"]),
  missing_required_environment_variables: Schema.Array(Schema.String)
})

/** The tool `skill_view`. */
export const view = Tool.make("skill_view", {
  description:
    "Read a skill: its instructions and the names of its files. Follow the instructions where they fit the task. Run " +
    "its scripts with terminal, from its directory.",
  parameters: Schema.Struct({
    name: Schema.String.annotate({ description: "Or category/name" }),
    file_path: Schema.optionalKey(
      Schema.String.annotate({ description: "Read this file of the skill instead (references/api.md)" })
    )
  }),
  success: Schema.Union([
    Viewed,
    Schema.Struct({
      success: Schema.Literal(true),
      name: Schema.String,
      status: Schema.Literal("unchanged"),
      message: Schema.String
    })
  ]),
  failure: Failure,
  failureMode: "return",
  dependencies: [ToolContext]
})
  .annotate(Tool.Readonly, true)
  .annotate(Tool.Destructive, false)

/** Maximum number of commands that run in one skill, and maximum number of characters of each output. */
const maxCommands = 10
const maxOutput = 4_000

const command = /!`([^`\n]{1,1000})`/g

/** Returns the output of a command in the text of a skill, or the reason for its failure. */
const renderCommandOutput = ({ isFailure, output }: NestedOutcome): string => {
  const result = Json.readFields(
    typeof output === "string" ? Option.getOrElse(Json.parse(output), () => ({ output })) : output
  )
  const text = [result["output"], result["error"]]
    .flatMap((one) => (typeof one === "string" && one.trim() !== "" ? [one.trim()] : []))
    .join("\n")
  const code = result["exit_code"]
  if (isFailure) return `[not run: ${text === "" ? "the call failed" : text}]`
  return TextCut.cutMiddle(typeof code === "number" && code !== 0 ? `${text}\n[exit code ${code}]` : text, maxOutput)
}

/**
 * Replaces the commands in the text of a skill with their outputs. They run in the skill's directory, and hooks, the
 * hardline floor and approvals apply to them as to the model's own commands. Other files of the skill are returned
 * unchanged.
 */
const insertCommandOutputs = Effect.fnUntraced(function* ({ file, skill, text }: SkillStore.View) {
  const run = yield* NestedCalls
  const found = Array.from(text.matchAll(command))
  if (found.length === 0 || file !== undefined || run === undefined) return text
  let shown = ""
  let at = 0
  for (const [index, match] of found.slice(0, maxCommands).entries()) {
    const call = Prompt.toolCallPart({
      id: `skill_${yield* Ids.makeHex(8)}_${index}`,
      name: "terminal",
      params: { command: match[1] ?? "", workdir: skill.directory },
      providerExecuted: false
    })
    shown += text.slice(at, match.index) + renderCommandOutput(yield* run(call))
    at = match.index + match[0].length
  }
  return shown + text.slice(at)
})

/** The tool `skill_manage`. */
export const manage = Tool.make("skill_manage", {
  description:
    "Save a way of working as a skill for later sessions, or correct one. create needs content: a SKILL.md with " +
    "frontmatter (name, description: what it does and when to use it), the steps, pitfalls and how to check the " +
    "result. patch replaces old_string, in SKILL.md or file_path; prefer it over edit, which replaces SKILL.md by " +
    "content. write_file and remove_file: below references/, templates/, scripts/ and assets/. delete removes the " +
    "skill with its files. Save what took trial and error, in general terms; not what is true of one task only, " +
    "and no credentials.",
  parameters: Schema.Struct({
    action: Schema.Literals(["create", "patch", "edit", "delete", "write_file", "remove_file"]),
    name: Schema.String.annotate({ description: "At most 64 lower-case letters, digits and hyphens" }),
    content: Schema.optionalKey(Schema.String),
    category: Schema.optionalKey(Schema.String.annotate({ description: "Such as devops" })),
    old_string: Schema.optionalKey(Schema.String),
    new_string: Schema.optionalKey(Schema.String),
    replace_all: Schema.optionalKey(Schema.Boolean.annotate({ description: "Every occurrence, not a unique one" })),
    file_path: Schema.optionalKey(Schema.String.annotate({ description: "Relative to the skill's directory" })),
    file_content: Schema.optionalKey(Schema.String)
  }),
  success: Schema.Struct({
    success: Schema.Literal(true),
    message: Schema.String,
    path: Schema.String,
    warnings: Schema.optionalKey(Schema.Array(Schema.String))
  }),
  failure: Failure,
  failureMode: "return",
  dependencies: [ToolContext]
})
  .annotate(Tool.Readonly, false)
  .annotate(Tool.Destructive, false)

type ManageCall = typeof manage.parametersSchema.Type

/** Returns the change that a call describes, or a text that names the missing arguments. */
const toChange = ({
  action,
  category,
  content,
  file_content,
  file_path,
  name,
  new_string,
  old_string,
  replace_all
}: ManageCall): SkillStore.Change | string => {
  switch (action) {
    case "create":
      return content === undefined ? "create needs content: the whole SKILL.md" : { action, name, content, category }
    case "edit":
      return content === undefined ? "edit needs content: the whole SKILL.md" : { action, name, content }
    case "patch":
      return old_string === undefined || new_string === undefined
        ? "patch needs old_string and new_string"
        : { action, name, oldText: old_string, newText: new_string, all: replace_all, file: file_path }
    case "delete":
      return { action, name }
    case "write_file":
      return file_path === undefined || file_content === undefined
        ? "write_file needs file_path and file_content"
        : { action, name, file: file_path, content: file_content }
    case "remove_file":
      return file_path === undefined ? "remove_file needs file_path" : { action, name, file: file_path }
  }
}

/** Parses the arguments of a `skill_manage` call as a change, if they describe one. */
export const parseChange = (params: unknown): Option.Option<SkillStore.Change> =>
  Option.flatMap(Schema.decodeUnknownOption(manage.parametersSchema)(params), (asked) => {
    const change = toChange(asked)
    return typeof change === "string" ? Option.none() : Option.some(change)
  })

const done: Readonly<Record<ManageCall["action"], string>> = {
  create: "Created. Later sessions see it in their prompts; skill_view shows it now.",
  edit: "Rewritten.",
  patch: "Patched.",
  delete: "Deleted, with its files.",
  write_file: "Written.",
  remove_file: "Removed."
}

const toolkit = Toolkit.make(list, view, manage)

const handlers = toolkit.toLayer(
  Effect.gen(function* () {
    const store = yield* SkillStore.SkillStore
    const inlineShell = yield* InlineShell
    return {
      skills_list: Effect.fnUntraced(function* ({ category }) {
        const { skills } = yield* store.catalogue
        const categories = Array.from(new Set(skills.map((skill) => skill.category)))
        if (category !== undefined && !categories.includes(category)) {
          return yield* failSkillCall(
            `there is no category "${category}": ` +
              `${categories.length === 0 ? "there are no skills" : `there are ${categories.join(", ")}`}`
          )
        }
        const found = skills.filter((skill) => category === undefined || skill.category === category)
        return {
          success: true as const,
          skills: found.map(({ category, facts, name }) => ({ name, category, description: facts.description })),
          categories,
          count: found.length
        }
      }),
      skill_view: Effect.fnUntraced(function* ({ file_path, name }) {
        const { sessionId } = yield* ToolContext
        const holds = yield* ConversationHistory
        const seen = yield* Effect.catch(store.view(name, { file: file_path, session: sessionId }), ({ message }) =>
          failSkillCall(message)
        )
        const { file, files, missing, skill } = seen
        const text = inlineShell ? yield* insertCommandOutputs(seen) : seen.text
        const viewed = {
          success: true as const,
          name: skill.name,
          description: skill.facts.description,
          directory: skill.directory,
          ...(file === undefined ? {} : { file }),
          content: text,
          linked_files: files,
          readiness_status: missing.length === 0 ? ("available" as const) : ("setup_needed" as const),
          missing_required_environment_variables: missing
        }
        return holds?.(JSON.stringify(text)) === true
          ? {
              success: true as const,
              name: skill.name,
              status: "unchanged" as const,
              message: "You have this text already: it is in an earlier result, and has not changed."
            }
          : viewed
      }),
      skill_manage: Effect.fnUntraced(function* (asked) {
        const change = toChange(asked)
        if (typeof change === "string") return yield* failSkillCall(change)
        const { path, warnings } = yield* Effect.catch(store.change(change), ({ message }) => failSkillCall(message))
        return {
          success: true as const,
          message: done[asked.action],
          path,
          ...(warnings.length === 0 ? {} : { warnings })
        }
      })
    }
  })
)

/** Creates the reason to ask about a change. An approval is granted for the skill's directory. */
const toConcern = (action: unknown, path: string): Concern =>
  action === "delete" || action === "remove_file"
    ? { key: `removes a skill or a file of it: ${path}`, permanent: false }
    : {
        key: `writes a skill, which later sessions follow: ${path}`,
        permanent: true,
        target: { kind: "path", text: path }
      }

/** The toolset `skills`. */
export const toolset = Toolset.withConcerns(
  Toolset.make("skills", toolkit, handlers),
  Effect.map(
    SkillStore.SkillStore,
    (store) =>
      (tool, { action, category, name }) =>
        tool !== "skill_manage" || typeof name !== "string"
          ? Effect.succeed([])
          : Effect.map(store.getPath(name, typeof category === "string" ? category : undefined), (path) => [
              toConcern(action, path)
            ])
  )
)
