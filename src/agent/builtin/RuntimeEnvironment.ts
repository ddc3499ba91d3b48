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
 * Lines of unknown values are left out. Nothing is added when no value is known, when there is no system prompt, and
 * when the text is already part of it. The stored prompt of the session does not change.
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

/** See the table above. */
export type Options = typeof Options.Type

const defaultTemplate = [
  "Working directory: {working_directory}",
  "Operating system: {operating_system}",
  "Shell: {shell}"
].join("\n")

const marker = "# Runtime environment"

/** The template with its values; undefined when none of them is known. */
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
  /** System messages by their original message, so that all runs of a session share one. */
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

/** The middleware of parameters of any shape. */
export const fromUnknown = (parameters: unknown): Result.Result<Middleware.LifecycleMiddleware, ConfigError> =>
  Result.map(Parameters.read("runtime-environment", Options, parameters), buildMiddleware)

/** Makes the middleware; throws a `ConfigError` where a parameter is wrong. */
export const make = (options: Options = {}): Middleware.LifecycleMiddleware => Result.getOrThrow(fromUnknown(options))
