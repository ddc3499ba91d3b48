/**
 * The flags of the program. Of one that is given twice the last counts, so that a shell alias can be overridden.
 *
 * Source: `hermes-product.md` §1.1 and §1.2.
 *
 * @since 0.1.0
 */
import * as Flag from "effect/cli/Flag"
import { Configurable } from "../domain/ApiMode.ts"
import type * as Config from "../config/Config.ts"

/** The last value of a flag, undefined when it is not given. */
export const last = <A>(flag: Flag.Flag<A>, description: string): Flag.Flag<A | undefined> =>
  flag.pipe(Flag.withDescription(description), Flag.atLeast(0), Flag.map((values) => values.at(-1)))

/** A flag with a text behind it. */
export const text = (name: string, metavar: string, description: string, alias?: string): Flag.Flag<string | undefined> => {
  const flag = Flag.String(name).pipe(Flag.withMetavar(metavar))
  return last(alias === undefined ? flag : Flag.withAlias(flag, alias), description)
}

/** A flag that is there or not. */
export const yes = (name: string, description: string, alias?: string): Flag.Flag<boolean> => {
  const flag = Flag.withoutNegation(Flag.Boolean(name))
  return Flag.map(last(alias === undefined ? flag : Flag.withAlias(flag, alias), description), (value) => value ?? false)
}

/** Flags that stand before a command or behind it. */
export const globals = {
  model: text("model", "NAME", "Model to ask", "m"),
  provider: text("provider", "NAME", "Provider that serves it; custom for an endpoint of your own"),
  baseUrl: text("base-url", "URL", "Address of the provider's API"),
  apiMode: last(Flag.Literals("api-mode", Configurable.literals), "Protocol of the API, where it can not be told from the address"),
  toolsets: text("toolsets", "A,B", "Toolsets of this run, see `hermes tools`", "t"),
  resume: text("resume", "SESSION", "Continue a session: its id, the beginning of it, its title, or latest", "r"),
  continue: last(
    Flag.String("continue").pipe(Flag.withAlias("c"), Flag.withMetavar("NAME"), Flag.withOptionalValue("latest")),
    "Continue the latest session, or the named one"
  ),
  acceptHooks: yes("accept-hooks", "Run the shell hooks of the configuration without asking"),
  yolo: yes("yolo", "Do without approvals, except for what is never allowed"),
  ignoreUserConfig: yes("ignore-user-config", "Leave config.yaml alone, and with it every plugin that it enables"),
  verbose: yes("verbose", "Say more about what happens, on stderr", "v")
}

/** Flags of `chat`, and of `hermes` without a command. */
export const chat = {
  query: text("query", "TEXT", "Ask this, print the answer and leave; piped input is attached to it", "q"),
  queryFile: text("query-file", "PATH", "Ask what stands in a file; - is stdin"),
  image: text("image", "PATH", "Attach an image to the query"),
  quiet: yes("quiet", "Only the final text on stdout", "Q"),
  format: last(Flag.Literals("format", ["text", "stream-json"]), "What stdout is: text, or one JSON object per line"),
  maxTurns: last(Flag.Int("max-turns").pipe(Flag.withMetavar("N")), "Model calls with tools at most"),
  runBudget: last(Flag.Finite("run-budget").pipe(Flag.withMetavar("SECONDS")), "Time for the whole run; the model is told when it comes to an end"),
  source: text("source", "TAG", "Who asks, kept with the session; tool hides it from lists"),
  oneshot: yes("oneshot", "With --query: answer and leave, also on a terminal"),
  script: text("script", "PATH", "Let the answers come from a scenario, without a model"),
  record: text("record", "PATH", "Record what is said to the model and back"),
  replay: text("replay", "PATH", "Let the answers come from a recording")
}

type Parsed<F> = { readonly [K in keyof F]: F[K] extends Flag.Flag<infer A> ? A : never }

/** The values of {@link globals}. */
export type Globals = Parsed<typeof globals>

/** The values of {@link chat}. */
export type Chat = Parsed<typeof chat>

/** The names of a list as flags take it: `a,b`. */
export const names = (list: string): ReadonlyArray<string> => list.split(",").map((name) => name.trim()).filter((name) => name !== "")

const settings = (flags: Globals & Partial<Chat>): ReadonlyArray<Config.Flag> => [
  { name: "--model", key: "model.default", value: flags.model },
  { name: "--provider", key: "model.provider", value: flags.provider },
  { name: "--base-url", key: "model.base_url", value: flags.baseUrl },
  { name: "--api-mode", key: "model.api_mode", value: flags.apiMode },
  { name: "--toolsets", key: "toolsets", value: flags.toolsets === undefined ? undefined : names(flags.toolsets) },
  { name: "--max-turns", key: "agent.max_turns", value: flags.maxTurns },
  { name: "--run-budget", key: "agent.run_budget_seconds", value: flags.runBudget },
  { name: "--accept-hooks", key: "hooks_auto_accept", value: flags.acceptHooks ? true : undefined },
  { name: "--yolo", key: "approvals.mode", value: flags.yolo ? "off" : undefined }
]

/** How the settings are loaded under these flags. */
export const configOptions = (flags: Globals & Partial<Chat>): Config.Options => ({
  flags: settings(flags),
  ignoreUserConfig: flags.ignoreUserConfig
})
