/**
 * Network addresses: which of them a model may reach, and the addresses of a name.
 *
 * Source: `hermes-llm.md` §19.5.
 *
 * @since 0.1.0
 */
import { lookup } from "node:dns/promises"
import { BlockList, isIP } from "node:net"

/** `forbidden` is never reached, `private` when the user allows it. */
export type Kind = "public" | "private" | "forbidden"

const listOf = (subnets: ReadonlyArray<string>): BlockList => {
  const list = new BlockList()
  for (const subnet of subnets) {
    const [address = "", bits = ""] = subnet.split("/")
    list.addSubnet(address, Number(bits), isIP(address) === 6 ? "ipv6" : "ipv4")
  }
  return list
}

/** Where clouds keep the credentials of their machines, and everything link-local. */
const forbidden = listOf(["169.254.0.0/16", "100.100.100.200/32", "fd00:ec2::254/128"])

const notPublic = listOf([
  "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
  "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "::/128", "::1/128",
  "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"
])

const hex = (text: string): number => Number.parseInt(text, 16)

/** The IPv4 address inside of an IPv6 one (mapped, compatible, NAT64, 6to4), which is what is really reached. */
const embedded = (address: string): string | undefined => {
  const url = `http://[${address.split("%")[0] ?? ""}]/`
  if (!URL.canParse(url)) return undefined
  const normal = new URL(url).hostname.slice(1, -1)
  const found = /^(?:::(?:ffff:(?:0:)?)?|64:ff9b::)([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(normal) ??
    /^2002:([0-9a-f]{1,4}):([0-9a-f]{1,4}):/.exec(normal)
  if (found === null) return undefined
  const [high, low] = [hex(found[1] ?? "0"), hex(found[2] ?? "0")]
  return [high >> 8, high & 255, low >> 8, low & 255].join(".")
}

/** See the module; what is no address is forbidden. */
export const kindOf = (address: string): Kind => {
  const version = isIP(address)
  if (version === 0) return "forbidden"
  if (version === 6) {
    const inner = embedded(address)
    if (inner !== undefined) return kindOf(inner)
  }
  const family = version === 6 ? "ipv6" : "ipv4"
  if (forbidden.check(address, family)) return "forbidden"
  return notPublic.check(address, family) ? "private" : "public"
}

/** The addresses of a host; of one that is an address, itself. */
export const addressesOf = async (host: string): Promise<ReadonlyArray<string>> =>
  isIP(host) === 0 ? (await lookup(host, { all: true })).map(({ address }) => address) : [host]
