// The calls of Spark's Kafka connector to its token provider, whose jar is in no public repository: no delegation
// tokens, and nothing redacted. A record needs none of these calls.
package org.apache.spark.kafka010

import java.{util => ju}

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkConf

class KafkaTokenClusterConf

object KafkaTokenUtil {
  def findMatchingTokenClusterConfig(conf: SparkConf, servers: String): Option[KafkaTokenClusterConf] = None
  def needTokenUpdate(params: ju.Map[String, Object], cluster: Option[KafkaTokenClusterConf]): Boolean = false
}

object KafkaRedactionUtil {
  def redactParams(params: Seq[(String, Object)]): Seq[(String, String)] =
    params.map { case (name, value) => name -> String.valueOf(value) }
}

class KafkaConfigUpdater(module: String, params: Map[String, Object]) {
  private val settings = new ju.HashMap[String, Object](params.asJava)
  def set(name: String, value: Object): this.type = { settings.put(name, value); this }
  def setIfUnset(name: String, value: Object): this.type = { settings.putIfAbsent(name, value); this }
  def setAuthenticationConfigIfNeeded(): this.type = this
  def setAuthenticationConfigIfNeeded(cluster: Option[KafkaTokenClusterConf]): this.type = this
  def build(): ju.Map[String, Object] = settings
}
