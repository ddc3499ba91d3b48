// The Atropos API as it is documented, on the loopback: it answers 200 to nearly everything, has environments wait for
// a trainer, and keeps groups of another size apart.
import * as Effect from "effect/Effect"
import * as HttpServer from "../models/provider/HttpServer.ts"

interface Group {
  readonly tokens: ReadonlyArray<ReadonlyArray<number>>
  readonly env_id?: number
}

interface Environment {
  readonly desired_name: string
  readonly group_size: number
  connected: boolean
}

export const make = Effect.gen(function* () {
  const state = {
    registration: undefined as undefined | Readonly<Record<string, unknown>>,
    started: false,
    step: 0,
    environments: [] as Array<Environment>,
    queue: [] as Array<Group>,
    buffer: [] as Array<Group>,
    /** Requests to register that had to wait. */
    waited: 0,
    onWait: () => {}
  }
  const size = (): number => Number(state.registration?.["batch_size"] ?? -1)
  const store = (group: Group): Readonly<Record<string, unknown>> => {
    const expected =
      group.env_id === undefined ? group.tokens.length : (state.environments[group.env_id]?.group_size ?? 1)
    if (group.tokens.length !== expected) {
      state.buffer.push(group)
      return { status: "buffered", buffer_size: state.buffer.reduce((sum, one) => sum + one.tokens.length, 0) }
    }
    state.queue.push(group)
    return { status: "received" }
  }
  const answer = (method: string, path: string, body: unknown): unknown => {
    // Bodies of the documented models.
    const fields = (body ?? {}) as Readonly<Record<string, never>>
    switch (`${method} ${path}`) {
      case "GET /":
        return { message: "AtroposLib API" }
      case "POST /register":
        state.registration = fields
        state.step = Number(fields["starting_step"])
        return { uuid: 1 }
      case "POST /register-env": {
        if (!state.started) {
          state.waited++
          state.onWait()
          return { status: "wait for trainer to start" }
        }
        const id = state.environments.push({ ...(body as Environment), connected: true }) - 1
        return {
          status: "success",
          env_id: id,
          wandb_name: `${fields["desired_name"]}_0`,
          checkpoint_dir: "/c",
          starting_step: state.step,
          checkpoint_interval: 10,
          num_steps: 100
        }
      }
      case "POST /disconnect-env": {
        const found = state.environments[Number(fields["env_id"])]
        if (found === undefined) return { status: "failure", error: "list index out of range" }
        found.connected = false
        return { status: "success" }
      }
      case "GET /info":
        return { batch_size: size(), max_token_len: Number(state.registration?.["max_token_len"] ?? -1) }
      case "GET /wandb_info":
        return {
          group: state.registration?.["wandb_group"] ?? null,
          project: state.registration?.["wandb_project"] ?? null
        }
      case "GET /status":
        return { current_step: state.step, queue_size: state.queue.length }
      case "GET /status-env":
        // A body, as the model of the parameter says.
        return typeof fields["env_id"] === "number"
          ? { current_step: state.step, queue_size: state.queue.length, env_weight: 1, unallocated_fraction: 1 }
          : undefined
      case "POST /scored_data":
        return store(body as Group)
      case "POST /scored_data_list":
        for (const group of body as ReadonlyArray<Group>) store(group)
        return { status: "received", groups_processed: (body as ReadonlyArray<Group>).length }
      case "GET /batch": {
        state.started = true
        const taken: Array<Group> = []
        while (taken.reduce((sum, { tokens }) => sum + tokens.length, 0) < size() && state.queue.length > 0)
          taken.push(...state.queue.splice(0, 1))
        if (taken.reduce((sum, { tokens }) => sum + tokens.length, 0) < size()) {
          state.queue.unshift(...taken)
          return { batch: null }
        }
        state.step++
        return { batch: taken }
      }
      default:
        return undefined
    }
  }
  const { url } = yield* HttpServer.make(({ body, method, url: path }, response) => {
    const found = answer(method, path.split("?")[0] ?? path, body === "" ? undefined : JSON.parse(body))
    return void (found === undefined
      ? HttpServer.json(response, 422, { detail: "Unprocessable Entity" })
      : HttpServer.json(response, 200, found))
  })
  return { url, state }
})
