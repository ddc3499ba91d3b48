/**
 * Refusals of skills, and the checks that their paths and texts must pass before they are written.
 */
import * as Effect from "effect/Effect"
import type { PlatformError } from "effect/PlatformError"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Yaml from "../../base/config/Yaml.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as SkillFile from "./SkillFile.ts"
import type { Change } from "./SkillProposals.ts"

/** Error raised when a skill is not shown or not changed; no file was changed. */
export class SkillRefused extends Schema.TaggedError<SkillRefused>("hermes-effect/prompt/SkillRefused")(
  "SkillRefused",
  { message: Schema.String }
) {}

/** Directories of a skill whose files may be written. */
const folders = ["references", "templates", "scripts", "assets"]

/** Fails with a message for the model or the user. */
export const refuseRequest = (message: string): Effect.Effect<never, SkillRefused> =>
  Effect.fail(new SkillRefused({ message }))

/** Converts a failure of the file system at a path to a refusal. */
export const toSkillRefusal =
  (path: string) =>
  <A, R>(self: Effect.Effect<A, PlatformError, R>): Effect.Effect<A, SkillRefused, R> =>
    Effect.mapError(self, (error) => new SkillRefused({ message: `${path}: ${describeReason(error)}` }))

/** Refuses a path that leaves the skill's directory; otherwise returns its parts joined by `/`. */
export const toSafePath = (file: string): Effect.Effect<string, SkillRefused> => {
  const parts = file.split(/[/\\]/).filter((part) => part !== "" && part !== ".")
  return file.startsWith("/") || /^[A-Za-z]:|\0/.test(file) || parts.includes("..") || parts.length === 0
    ? refuseRequest(`"${file}" does not stay in the directory of the skill: give a path such as references/api.md`)
    : Effect.succeed(parts.join("/"))
}

/** Refuses a path at which files of a skill may not be written. */
export const checkWritablePath = (file: string): Effect.Effect<string, SkillRefused> =>
  Effect.flatMap(toSafePath(file), (path) =>
    /^[^/]+\/./.test(path) &&
    folders.includes(path.split("/", 1)[0] ?? "") &&
    path.split("/").every((part) => /^[\w][\w.-]{0,99}$/.test(part))
      ? Effect.succeed(path)
      : refuseRequest(`"${file}" is not written: files of a skill stand in ${folders.join("/, ")}/, with plain names`)
  )

/** Refuses a text that a skill may not contain; returns the commands in it that should be reviewed. */
export const checkText = (
  text: string,
  file: string,
  added = text
): Effect.Effect<ReadonlyArray<string>, SkillRefused> => {
  const found = SkillFile.findRefusals(text, file)
  if (found.length > 0)
    return refuseRequest(`not written: the text looks like an injected instruction (${found.join(", ")})`)
  if (new TextEncoder().encode(text).length > SkillFile.maxBytes)
    return refuseRequest(`not written: the text has more than ${SkillFile.maxBytes} bytes`)
  return Redaction.redactText(added) === added
    ? Effect.succeed(SkillFile.findWarnings(text))
    : refuseRequest("not written: the text has a credential in it: name a variable of the environment in its place")
}

/** Refuses a text that is not a valid `SKILL.md`; a new skill must follow the open format and contain its own name. */
export const checkSkillText = Effect.fnUntraced(function* (
  name: string,
  text: string,
  { added = text, isNew = false } = {}
) {
  const parsed = SkillFile.parse(yield* Yaml.load, text)
  if (Result.isFailure(parsed)) return yield* refuseRequest(`not written: ${parsed.failure}`)
  const [remark] = isNew ? SkillFile.listRemarks(parsed.success, name) : []
  if (remark !== undefined) return yield* refuseRequest(`not written: ${remark}`)
  return yield* checkText(text, SkillFile.fileName, added)
})

/** Replaces one part of a text, or all its occurrences; refuses a missing or ambiguous part. */
export const replaceText = (
  text: string,
  { all = false, newText, oldText }: Extract<Change, { readonly action: "patch" }>
): Effect.Effect<string, SkillRefused> => {
  const count = oldText === "" ? 0 : text.split(oldText).length - 1
  if (count === 0) return refuseRequest("old_string is not in the file: view it, and give a part of it exactly")
  return count > 1 && !all
    ? refuseRequest(
        `old_string is ${count} times in the file: give more of the place that you mean, or set replace_all`
      )
    : Effect.succeed(text.split(oldText).join(newText))
}
