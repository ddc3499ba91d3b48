/**
 * `fetch` for an MCP server with an address. Requests go to the host that the user configured; requests to other hosts
 * must pass the gate (`EgressGate`).
 *
 * **Details**
 *
 * The official client also contacts hosts chosen by the server: targets of redirects, and the hosts of its login
 * (metadata, tokens). A redirect within the host is followed. A redirect to another host or from https to http is an
 * error that names the setting, because the body and the headers of a request are meant for the server alone. Permitted
 * login hosts are hosts that `hermes mcp login` reached while the user was present, and listed hosts.
 *
 * Source: `hermes-product.md` §2.4, `hermes-llm.md` §19.5.
 */
import * as EgressGate from "../fence/EgressGate.ts"
import { formatHost, type Policy } from "../fence/Urls.ts"

/** `fetch` as the official client calls it. */
export type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>

/** Hosts that requests for one server may reach. */
export interface ServerHosts {
  /** Name of the server in the settings. */
  readonly server: string
  /** Address of the server. */
  readonly url: URL
  /** Returns true if requests may go to another host. */
  readonly isAdmitted: (host: string) => boolean | Promise<boolean>
}

/** Creates a test for further hosts of a server: the hosts of its login and of the policy. */
export const makeHostTest =
  (policy: Pick<Policy, "hosts" | "unknownHosts">, hostsOfLogin: () => Promise<ReadonlyArray<string>>) =>
  async (host: string): Promise<boolean> =>
    EgressGate.isOpenFor(policy, host) || (await hostsOfLogin()).includes(host)

const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
const maxRedirects = 5

/** Returns the request that follows a redirect. A POST becomes a GET, as in browsers, except for 307 and 308. */
const redirectedInit = (init: RequestInit, status: number): RequestInit => {
  const isKept = status === 307 || status === 308 || init.method === undefined || /^(?:GET|HEAD)$/i.test(init.method)
  if (isKept) return init
  const { body: _, ...rest } = init
  const headers = new Headers(init.headers)
  headers.delete("content-type")
  return { ...rest, method: "GET", headers }
}

/** Creates a `fetch` limited to the hosts of a server. Rejects with a one-line message that names the next step. */
export const make =
  (fetch: Fetch, { isAdmitted, server, url: configured }: ServerHosts): Fetch =>
  async (url, init = {}) => {
    const own = formatHost(configured)
    let at = new URL(url)
    let request: RequestInit = { ...init, redirect: "manual" }
    if (formatHost(at) !== own && !(await isAdmitted(formatHost(at)))) {
      throw new Error(
        `its login is at ${formatHost(at)}, a host that is not approved: run \`hermes mcp login ${server}\`, or add ` +
          `web(${formatHost(at)}) to permissions.allow`
      )
    }
    for (let hop = 0; hop <= maxRedirects; hop++) {
      const response = await fetch(at, request)
      const location = response.headers.get("location")
      if (!redirects.has(response.status) || location === null) return response
      await response.body?.cancel()
      const next = URL.parse(location, at.href)
      if (
        next === null ||
        formatHost(next) !== formatHost(at) ||
        (at.protocol === "https:" && next.protocol !== "https:")
      ) {
        throw new Error(
          `it redirects to ${next === null ? "something that is no address" : next.origin}, which is not the ` +
            `configured server: put that address into mcp_servers.${server}.url if you trust it`
        )
      }
      request = redirectedInit(request, response.status)
      at = next
    }
    throw new Error(`it redirects more than ${maxRedirects} times: correct mcp_servers.${server}.url`)
  }
