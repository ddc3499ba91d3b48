/**
 * The environment of a command: that of this program without credentials, so that a command which prints or sends its
 * environment gives nothing away.
 *
 * **Details**
 *
 * Left out are what the runtime itself uses to reach providers, tools and messengers (`CredentialNames.isReserved`), and every name
 * of a credential family (`…_TOKEN`, `…_SECRET`, `…_PASSWORD`, `…_KEY`, …). A name of a family can be let through by the
 * settings (`terminal.env_passthrough`), a reserved one never. General `AWS_…` variables stay, because command line tools need
 * them, except the secrets that a route of this program signs with; so do names that only point at a place (`…_FILE`, `…_PATH`, `SSH_AUTH_SOCK`) or count (`MAX_TOKENS`).
 *
 * **Gotchas**
 *
 * A value is never looked at: a password inside of a `DATABASE_URL` stays. The commands can still read the user's files;
 * this keeps secrets from leaking by accident, it does not confine anything.
 *
 * Source: `hermes-llm.md` §19.10.
 */
import * as Effect from "effect/Effect"
import { isCredential, isReserved } from "../../../domain/CredentialNames.ts"
import * as TraceContext from "../../../domain/TraceContext.ts"
import { ProcessEnvironment } from "../../../platform/ProcessVariables.ts"
import * as InteractiveMode from "../../approval/InteractiveMode.ts"
import * as CronContext from "../../cron/CronContext.ts"
import { markVariable } from "./ProcessTree.ts"

const standardPath = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]

/** The search path with the standard directories after the given ones, when none of the essential ones is there. */
const searchPath = (path: string | undefined): string => {
  const given = path === undefined ? [] : path.split(":").filter((entry) => entry !== "")
  return given.includes("/usr/bin") ? given.join(":") : [...new Set([...given, ...standardPath])].join(":")
}

/** Exceptions that the configuration makes, by exact name. */
export interface Exceptions {
  /** Variables of a credential family that commands may have. */
  readonly passThrough: ReadonlyArray<string>
  /** Further variables that commands never have, such as the `key_env` of a custom provider. */
  readonly reserved: ReadonlyArray<string>
}

/** Takes the credentials out of an environment. Pure. */
export const scrub = (
  environment: Readonly<Record<string, string | undefined>>,
  { passThrough, reserved }: Exceptions
): Record<string, string> => {
  const out: Record<string, string> = {}
  for (const [name, value] of Object.entries(environment)) {
    if (value === undefined || reserved.includes(name)) continue
    if (isCredential(name) && (isReserved(name) || !passThrough.includes(name))) continue
    out[name] = value
  }
  out["PATH"] = searchPath(environment["PATH"])
  return out
}

/**
 * The environment of what a tool call starts: that of this program without credentials, with the trace and the limits that the
 * call hands on, and the mark that finds what it leaves running.
 */
export const inherited = Effect.fnUntraced(function*(exceptions: Exceptions, mark: string | undefined): Effect.fn.Return<Record<string, string>> {
  const environment = yield* ProcessEnvironment
  return {
    ...scrub(environment(), exceptions),
    ...yield* TraceContext.variables,
    ...yield* CronContext.variables,
    ...yield* InteractiveMode.variables,
    ...(mark === undefined ? {} : { [markVariable]: mark })
  }
})
