/**
 * Changes of skills: creates, edits, patches and deletes them and the files in their directories, after checks of
 * names, paths and texts.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Environment from "../../base/config/Environment.ts"
import * as Ids from "../../base/domain/Ids.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import * as SkillFile from "./SkillFile.ts"
import * as SkillIndex from "./SkillIndex.ts"
import type { Change } from "./SkillProposals.ts"
import {
  checkSkillText,
  checkText,
  checkWritablePath,
  refuseRequest,
  replaceText,
  type SkillRefused,
  toSkillRefusal
} from "./SkillRefusal.ts"
import { buildSkillPath, findOwnSkill, resolveInsideSkill, type SkillShelf } from "./SkillShelf.ts"

/** Path of a change, and the function that returns the new text of the file; `undefined` for a removal. */
interface ChangePlan {
  readonly path: string
  readonly edit?: (
    before: string
  ) => Effect.Effect<{ readonly text: string; readonly warnings: ReadonlyArray<string> }, SkillRefused>
}

/** Plans a new skill; refuses a name that is invalid or already exists. */
const planCreation = Effect.fnUntraced(function* (
  shelf: SkillShelf,
  change: Extract<Change, { readonly action: "create" }>
): Effect.fn.Return<ChangePlan, SkillRefused> {
  const { category, content, name } = change
  if (!SkillFile.isName(name))
    return yield* refuseRequest(
      `"${TextCut.shorten(name, 80)}" is no name of a skill: use at most 64 lower-case letters, digits ` +
        "and single hyphens"
    )
  if (
    category !== undefined &&
    !category.split("/").every((part, at) => at < SkillIndex.maxDepth - 1 && SkillFile.isDirectoryName(part))
  ) {
    return yield* refuseRequest(`"${TextCut.shorten(category, 80)}" is no name of a category`)
  }
  const there = (yield* shelf.everything).skills.find((skill) => skill.name === name && !skill.isReadOnly)
  if (there !== undefined)
    return yield* refuseRequest(`there is a skill "${name}" already (${there.path}): change it with patch or edit`)
  const warnings = yield* checkSkillText(name, content, { isNew: true })
  const path = shelf.paths.join(buildSkillPath(shelf, name, category), SkillFile.fileName)
  return {
    path,
    edit: (before) =>
      before === "" ? Effect.succeed({ text: content, warnings }) : refuseRequest(`there is a skill "${name}" already`)
  }
})

/** Plans a change: the affected file or directory, and the new text of the file. */
const planChange = Effect.fnUntraced(function* (
  shelf: SkillShelf,
  change: Change
): Effect.fn.Return<ChangePlan, SkillRefused> {
  if (change.action === "create") return yield* planCreation(shelf, change)
  const { fs, paths } = shelf
  const skill = yield* findOwnSkill(shelf, change.name)
  if (change.action === "delete") {
    return (yield* toSkillRefusal(skill.directory)(fs.exists(paths.join(skill.directory, ".pinned"))))
      ? yield* refuseRequest(
          `the skill "${skill.name}" is pinned: only the user may delete it, after removing its file .pinned`
        )
      : { path: skill.directory }
  }
  const file =
    "file" in change && change.file !== undefined ? yield* checkWritablePath(change.file) : SkillFile.fileName
  const path = yield* resolveInsideSkill(shelf, skill, file)
  const isSkill = file === SkillFile.fileName
  if (change.action === "remove_file") {
    const info = yield* Effect.option(fs.stat(path))
    return Option.isNone(info) || info.value.type !== "File"
      ? yield* refuseRequest(`the skill "${skill.name}" has no file "${file}"`)
      : { path }
  }
  if (change.action === "patch") {
    return {
      path,
      edit: (before) =>
        Effect.flatMap(replaceText(before, change), (text) =>
          Effect.map(
            isSkill
              ? checkSkillText(skill.name, text, { added: change.newText })
              : checkText(text, file, change.newText),
            (warnings) => ({ text, warnings })
          )
        )
    }
  }
  const text = change.content
  const warnings = yield* isSkill ? checkSkillText(skill.name, text) : checkText(text, file)
  return { path, edit: () => Effect.succeed({ text, warnings }) }
})

/** Writes the text that a change computes from the old text. */
const writeSkillFile = <E>(
  { fs, options, paths }: SkillShelf,
  path: string,
  change: (before: string) => Effect.Effect<{ readonly text: string; readonly warnings: ReadonlyArray<string> }, E>
) =>
  Effect.gen(function* () {
    yield* toSkillRefusal(path)(fs.makeDirectory(paths.dirname(path), { recursive: true, mode: 0o700 }))
    const result = yield* Environment.updateText(options.database, path, (before) =>
      Effect.map(Effect.result(change(before)), (result) => ({
        text: Result.isSuccess(result) ? result.success.text : before,
        result
      }))
    )
    return { path, warnings: (yield* Effect.fromResult(result)).warnings }
  })

/** Fails in the same way as the change would, without changing anything. */
export const checkChange = (shelf: SkillShelf, change: Change) =>
  Effect.flatMap(planChange(shelf, change), ({ edit, path }) =>
    edit === undefined
      ? Effect.void
      : Effect.flatMap(
          Effect.orElseSucceed(shelf.fs.readFileString(path), () => ""),
          (before) => Effect.asVoid(edit(before))
        )
  )

/** Applies a change of a skill. If it fails, a directory that it created is removed again. */
export const applyChange = Effect.fnUntraced(function* (shelf: SkillShelf, change: Change) {
  const { fs, options, paths } = shelf
  const { edit, path } = yield* planChange(shelf, change)
  if (edit !== undefined) {
    const directory = paths.dirname(path)
    const isNew = !(yield* toSkillRefusal(directory)(fs.exists(directory)))
    return yield* Effect.onError(writeSkillFile(shelf, path, edit), () =>
      isNew ? Effect.ignore(fs.remove(directory)) : Effect.void
    )
  }
  if (change.action === "delete") {
    // The directory disappears at once for every reader and is then deleted file by file.
    const aside = paths.join(options.directory, `.deleted-${yield* Ids.makeHex(12)}`)
    yield* toSkillRefusal(path)(Effect.andThen(fs.rename(path, aside), fs.remove(aside, { recursive: true })))
  } else yield* toSkillRefusal(path)(fs.remove(path))
  return { path, warnings: [] }
})
