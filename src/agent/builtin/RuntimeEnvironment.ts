/**
 * Adds working directory, operating system and shell to the system prompt of a run.
 *
 * **Details**
 *
 * | parameter | default | |
 * | --- | --- | --- |
 * | `template` | see below | text with `{working_directory}`, `{operating_system}` and `{shell}` |
 * | `workingDirectory` | the run's | |
 * | `operatingSystem` | none | |
 * | `shell` | `SHELL` of the environment | |
 *
 * Template lines with unknown values are omitted. Nothing is added if no value is known, if there is no system prompt,
 * or if the prompt already contains the text. The stored prompt of the session does not change.
 *
 * **Example** (A sandbox)
 *
 * ```ts
 * import { RuntimeEnvironment } from "hermes-effect/middleware"
 *
 * export const place = RuntimeEnvironment.make({ operatingSystem: "Debian 12", shell: "bash" })
 * ```
 *
 * Source: `nexau.md` §5.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as CurrentProcess from "../../base/platform/CurrentProcess.ts"
import * as Parameters from "./Parameters.ts"

const Options = Schema.Struct({
  template: Schema.optional(Schema.NonEmptyString),
  workingDirectory: Schema.optional(Schema.String),
  operatingSystem: Schema.optional(Schema.String),
  shell: Schema.optional(Schema.String)
})

/** Options of the middleware; see the table above. */
export type Options = typeof Options.Type

const defaultTemplate = [
  "Working directory: {working_directory}",
  "Operating system: {operating_system}",
  "Shell: {shell}"
].join("\n")

const marker = "# Runtime environment"

/** Returns the template with its values filled in, or `undefined` if no value is known. */
const fillTemplate = (template: string, values: Readonly<Record<string, string | undefined>>): string | undefined => {
  let isKnown = false
  const lines = template.split("\n").filter((line) => {
    const names = Array.from(line.matchAll(/\{(\w+)\}/g), ([, name = ""]) => name).filter((name) =>
      Object.hasOwn(values, name)
    )
    const known = names.every((name) => values[name] !== undefined && values[name] !== "")
    isKnown ||= names.length > 0 && known
    return known
  })
  return isKnown
    ? lines
        .join("\n")
        .replaceAll(/\{(\w+)\}/g, (whole, name: string) =>
          Object.hasOwn(values, name) ? (values[name] ?? whole) : whole
        )
    : undefined
}

const buildMiddleware = ({
  operatingSystem,
  shell,
  template = defaultTemplate,
  workingDirectory
}: Options): Middleware.LifecycleMiddleware => {
  /** Extended system messages by their original message, so that all runs of a session share one message object. */
  const made = new WeakMap<Prompt.Message, Prompt.SystemMessage>()
  return Middleware.lifecycle({
    name: "RuntimeEnvironment",
    beforeAgent: ({ messages, run }) => {
      const [first, ...rest] = messages
      if (first?.role !== "system" || first.content.includes(marker)) return Middleware.noChanges
      const text = fillTemplate(template, {
        working_directory: workingDirectory ?? run.cwd,
        operating_system: operatingSystem,
        shell: shell ?? CurrentProcess.getProcessVariables()["SHELL"]
      })
      if (text === undefined) return Middleware.noChanges
      const content = `${first.content}\n\n${marker}\n${text}`
      const known = made.get(first)
      const system = known?.content === content ? known : Prompt.systemMessage({ content, options: first.options })
      made.set(first, system)
      return Middleware.withModifications({ messages: [system, ...rest] })
    }
  })
}

/** Creates the middleware from unvalidated parameters. */
export const fromUnknown = (parameters: unknown): Result.Result<Middleware.LifecycleMiddleware, ConfigError> =>
  Result.map(Parameters.read("runtime-environment", Options, parameters), buildMiddleware)

/** Creates the middleware. Throws a `ConfigError` if a parameter is invalid. */
export const make = (options: Options = {}): Middleware.LifecycleMiddleware => Result.getOrThrow(fromUnknown(options))
