/**
 * Client of the Atropos API, the buffer between environments that generate rollouts and a trainer that consumes
 * batches.
 *
 * **Details**
 *
 * An environment registers ({@link connectEnvironment}), submits scored groups while the queue is short enough, and
 * disconnects at its end. The API answers nearly every request with status 200, so the client also checks the response
 * bodies. It waits if a body contains `wait for trainer to start`, and fails if the API no longer knows the
 * environment. A submission is sent once. If the connection breaks, the client cannot tell whether the group was
 * received.
 *
 * **Gotchas**
 *
 * `GET /status-env` unusually expects its parameter in the body. The client also sends it in the query. If the trainer
 * registered another `batch_size` or `group_size` than the environment, the API buffers groups until they fit
 * ({@link SubmissionResult}).
 *
 * **Example** (The state of a training run)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Atropos } from "hermes-effect/rollouts"
 *
 * const program = Effect.gen(function*() {
 *   const { status } = yield* Atropos.make("http://127.0.0.1:1")
 *   return `step ${(yield* status).current_step}`
 * }).pipe(Effect.scoped, Effect.catchTag("AtroposError", ({ reason }) => Effect.succeed(reason)))
 *
 * console.log(await Effect.runPromise(program))
 * // => unreachable
 * ```
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Json from "../../base/domain/Json.ts"
import { type HttpTransport, loadForPlace } from "../../base/platform/ModelTransport.ts"
import type { ScoredGroup } from "./EpisodeExport.ts"

/** Error raised when a request to the API fails. The message states the cause and the remedy. */
export class AtroposError extends Schema.TaggedError<AtroposError>("hermes-effect/runner/AtroposError")(
  "AtroposError",
  { reason: Schema.Literals(["unreachable", "waiting", "refused", "unexpected"]), message: Schema.String }
) {}

/** Facts about a training run, as registered by its trainer. */
export const Registration = Schema.Struct({
  wandb_group: Schema.String,
  wandb_project: Schema.String,
  batch_size: Schema.Int,
  max_token_len: Schema.Int,
  checkpoint_dir: Schema.String,
  save_checkpoint_interval: Schema.Int,
  starting_step: Schema.Int,
  num_steps: Schema.Int
})

/** Registration data of an environment. */
export interface EnvironmentFacts {
  readonly max_token_length: number
  readonly desired_name: string
  readonly weight: number
  readonly group_size: number
  readonly min_batch_allocation?: number | undefined
}

const Registered = Schema.Struct({
  status: Schema.Literal("success"),
  env_id: Schema.Int,
  wandb_name: Schema.String,
  checkpoint_dir: Schema.String,
  starting_step: Schema.Int,
  checkpoint_interval: Schema.Int,
  num_steps: Schema.Int
})
/** A registered environment. */
export type Registered = typeof Registered.Type

const Status = Schema.Struct({ current_step: Schema.Int, queue_size: Schema.Int })
const EnvironmentStatus = Schema.Struct({ ...Status.fields, env_weight: Schema.Finite })
const Info = Schema.Struct({ batch_size: Schema.Int, max_token_len: Schema.Int })
const WandbInfo = Schema.Struct({ group: Schema.NullOr(Schema.String), project: Schema.NullOr(Schema.String) })
const Batch = Schema.Struct({ batch: Schema.NullOr(Schema.Array(Schema.Record(Schema.String, Schema.Unknown))) })
const Uuid = Schema.Struct({ uuid: Schema.Unknown })
const Received = Schema.Struct({
  status: Schema.Literals(["received", "buffered"]),
  buffer_size: Schema.optionalKey(Schema.Int)
})
const Disconnected = Schema.Struct({ status: Schema.String, error: Schema.optionalKey(Schema.String) })
const Root = Schema.Struct({ message: Schema.String })

/**
 * Status of a submitted group: it is queued, or it is held until more groups complete the group size of its
 * environment.
 */
export type SubmissionResult = typeof Received.Type

/** A client of the API at one address. */
export interface Client {
  readonly url: string
  /** Checks that the API is reachable, and returns its welcome message. */
  readonly check: Effect.Effect<string, AtroposError>
  readonly register: (registration: typeof Registration.Type) => Effect.Effect<void, AtroposError>
  /** Waits at most `patience` for a trainer to start, and registers an environment. */
  readonly registerEnvironment: (
    facts: EnvironmentFacts,
    patience: Duration.Input
  ) => Effect.Effect<Registered, AtroposError>
  readonly disconnect: (environment: number) => Effect.Effect<void, AtroposError>
  readonly info: Effect.Effect<typeof Info.Type, AtroposError>
  readonly wandb: Effect.Effect<typeof WandbInfo.Type, AtroposError>
  readonly status: Effect.Effect<typeof Status.Type, AtroposError>
  readonly environmentStatus: (environment: number) => Effect.Effect<typeof EnvironmentStatus.Type, AtroposError>
  readonly submit: (environment: number, group: ScoredGroup) => Effect.Effect<SubmissionResult, AtroposError>
  readonly submitAll: (environment: number, groups: ReadonlyArray<ScoredGroup>) => Effect.Effect<void, AtroposError>
  /** Returns the next batch for a trainer, or `undefined` while there are not enough groups. */
  readonly batch: Effect.Effect<ReadonlyArray<Json.Fields> | undefined, AtroposError>
}

const makeError = (reason: AtroposError["reason"], message: string): AtroposError =>
  new AtroposError({ reason, message })

/** Time limit for one response. */
const patience = "60 seconds"

/** Address of the API, and the functions that send requests to it. */
interface Connected {
  readonly url: string
  readonly fetch: HttpTransport
}

const sendRequest = (
  { fetch, url }: Connected,
  method: string,
  path: string,
  body: unknown
): Effect.Effect<unknown, AtroposError> =>
  Effect.tryPromise({
    try: async (signal) => {
      const response = await fetch(`${url}${path}`, {
        method,
        signal,
        headers: { accept: "application/json", ...(body === undefined ? {} : { "content-type": "application/json" }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
      return { status: response.status, text: await response.text() }
    },
    catch: () =>
      makeError("unreachable", `Nothing answers at ${url}: start the Atropos API (run-api), or correct the address.`)
  }).pipe(
    Effect.timeoutOrElse({
      duration: patience,
      orElse: () => Effect.fail(makeError("unreachable", `${url} did not answer in time.`))
    }),
    Effect.flatMap(({ status, text }) =>
      status === 200
        ? Effect.succeed(Json.parseOrKeep(text))
        : Effect.fail(
            makeError(
              status < 500 ? "refused" : "unexpected",
              `${method} ${path} of ${url} was answered with ${status}: ${text.slice(0, 300)}`
            )
          )
    )
  )
const requestDecoded = <S extends Schema.Codec<unknown, unknown, never, never>>(
  connected: Connected,
  schema: S,
  method: string,
  path: string,
  body?: unknown
): Effect.Effect<S["Type"], AtroposError> => {
  const decode = Schema.decodeUnknownEffect(schema)
  return Effect.flatMap(sendRequest(connected, method, path, body), (value) =>
    Effect.mapError(decode(value), () =>
      makeError(
        "unexpected",
        `${method} ${path} of ${connected.url} has another form than the Atropos API: ` +
          `${Json.toText(value).slice(0, 300)}`
      )
    )
  )
}

const registerOnce = (connected: Connected, facts: EnvironmentFacts): Effect.Effect<Registered, AtroposError> =>
  Effect.flatMap(sendRequest(connected, "POST", "/register-env", facts), (value) => {
    const found = Schema.decodeUnknownOption(Registered)(value)
    return Option.isSome(found)
      ? Effect.succeed(found.value)
      : Effect.fail(
          makeError(
            /wait/iu.test(Json.readWord(Json.readFields(value)["status"])) ? "waiting" : "unexpected",
            `The trainer of ${connected.url} has not asked for a batch yet: ${Json.toText(value).slice(0, 200)}`
          )
        )
  })

/** Makes a client. The scope closes its connections. */
export const make = Effect.fnUntraced(function* (address: string): Effect.fn.Return<Client, AtroposError, Scope.Scope> {
  const url = address.replace(/\/+$/u, "")
  if (!URL.canParse(url) || !/^https?:/u.test(url))
    return yield* makeError("unreachable", `"${address}" is not an address: give one such as http://127.0.0.1:8000`)
  const openTransport = yield* Effect.promise(() => loadForPlace())
  const fetch = yield* Effect.acquireRelease(
    Effect.sync(() => openTransport({})),
    ({ close }) => Effect.sync(close)
  )
  const connected: Connected = { url, fetch }
  return {
    url,
    check: Effect.map(requestDecoded(connected, Root, "GET", "/"), ({ message }) => message),
    register: (registration) => Effect.asVoid(requestDecoded(connected, Uuid, "POST", "/register", registration)),
    registerEnvironment: (facts, time) =>
      registerOnce(connected, facts).pipe(
        Effect.retry({
          while: ({ reason }) => reason === "waiting",
          schedule: Schedule.max([Schedule.spaced("500 millis"), Schedule.during(time)])
        })
      ),
    disconnect: (environment) =>
      Effect.flatMap(
        requestDecoded(connected, Disconnected, "POST", "/disconnect-env", { env_id: environment }),
        ({ error, status }) =>
          status === "success"
            ? Effect.void
            : Effect.fail(
                makeError("refused", `The environment ${environment} could not be disconnected: ${error ?? status}`)
              )
      ),
    info: requestDecoded(connected, Info, "GET", "/info"),
    wandb: requestDecoded(connected, WandbInfo, "GET", "/wandb_info"),
    status: requestDecoded(connected, Status, "GET", "/status"),
    environmentStatus: (environment) =>
      requestDecoded(connected, EnvironmentStatus, "GET", `/status-env?env_id=${environment}`, { env_id: environment }),
    submit: (environment, group) =>
      requestDecoded(connected, Received, "POST", "/scored_data", { ...group, env_id: environment }),
    submitAll: (environment, groups) =>
      Effect.asVoid(
        requestDecoded(
          connected,
          Received,
          "POST",
          "/scored_data_list",
          groups.map((group) => ({ ...group, env_id: environment }))
        )
      ),
    batch: Effect.map(requestDecoded(connected, Batch, "GET", "/batch"), ({ batch }) => batch ?? undefined)
  }
})

/** An environment that is registered for the lifetime of the scope. */
export interface Connection extends Registered {
  /**
   * Submits a group as soon as the queue is short enough, so that training does not use answers from outdated weights.
   */
  readonly submit: (group: ScoredGroup) => Effect.Effect<SubmissionResult, AtroposError>
}

/** Maximum number of batches in the queue. */
const offPolicyTolerance = 3

/** Schedule for checking a full queue, without a time limit: training may take any time. */
const queueChecks = Schedule.spaced("5 seconds")

/** Registers an environment, and disconnects it when the scope closes. */
export const connectEnvironment = Effect.fnUntraced(function* (
  client: Client,
  facts: EnvironmentFacts,
  wait: Duration.Input = "5 minutes"
): Effect.fn.Return<Connection, AtroposError, Scope.Scope> {
  const known = yield* client.registerEnvironment(facts, wait)
  yield* Effect.addFinalizer(() =>
    Effect.catch(client.disconnect(known.env_id), ({ message }) => Effect.logWarning(message))
  )
  const { batch_size: size } = yield* client.info
  const most = offPolicyTolerance * Math.max(1, size)
  const room = Effect.repeat(client.environmentStatus(known.env_id), {
    while: ({ queue_size: waiting }) => waiting > most,
    schedule: queueChecks
  })
  return { ...known, submit: (group) => Effect.andThen(room, client.submit(known.env_id, group)) }
})
