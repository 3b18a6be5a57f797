/** Numbers and times in sentences of `kube-ipvs status`. */

/** `1 table`, `2 tables` */
export function count(number: number, what: string, plural = 's'): string {
  return `${number} ${what}${number === 1 ? '' : plural}`
}

/** A span of time in its two largest units: `45s`, `3m5s`, `2h0m`, `3d4h`. */
export function spanText(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds))
  const [days, hours, minutes] = [
    Math.floor(whole / 86_400),
    Math.floor(whole / 3600) % 24,
    Math.floor(whole / 60) % 60,
  ]
  if (days > 0) return `${days}d${hours}h`
  if (hours > 0) return `${hours}h${minutes}m`
  return minutes > 0 ? `${minutes}m${whole % 60}s` : `${whole}s`
}
