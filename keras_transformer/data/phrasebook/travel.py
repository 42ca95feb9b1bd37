"""Carriers about trains, airports, hotels, weather and places."""

TEXT = """\
Train {train} leaves at {time1} and arrives on platform {small} at {time2}.
Der Zug {train} fährt um {time1} Uhr ab und kommt um {time2} Uhr auf Gleis {small} an.
Le train {train} part à {time1} et arrive voie {small} à {time2}.

On {day}, train {train} will leave {minutes} late.
Am {day} fährt der Zug {train} mit {minutes} Verspätung ab.
Le {day}, le train {train} partira avec {minutes} de retard.

Seat reservation for {full}: {price} per person.
Sitzplatzreservierung für {full}: {price} pro Person.
Réservation de place pour le {full} : {price} par personne.

The night train to Vienna takes {duration} and runs at up to {speed}.
Der Nachtzug nach Wien braucht {duration} und fährt mit bis zu {speed}.
Le train de nuit pour Vienne met {duration} et roule jusqu'à {speed}.

Your connection at {time} leaves from platform {small}; you have {minutes} to change \
trains.
Ihr Anschluss um {time} Uhr fährt von Gleis {small}; Sie haben {minutes} zum Umsteigen.
Votre correspondance de {time} part de la voie {small} ; vous avez {minutes} pour \
changer de train.

From {date}, the monthly pass will cost {euros1} instead of {euros2}.
Ab dem {date} kostet die Monatskarte {euros1} statt {euros2}.
À partir du {date}, l'abonnement mensuel coûtera {euros1} au lieu de {euros2}.

Because of construction work, there are no trains between {time1} and {time2} until \
{date}.
Wegen Bauarbeiten fahren bis zum {date} zwischen {time1} und {time2} Uhr keine Züge.
En raison de travaux, aucun train ne circule entre {time1} et {time2} jusqu'au {date}.

The ticket office is open from {morning} to {evening}; call {phone} for help.
Der Fahrkartenschalter ist von {morning} bis {evening} Uhr geöffnet; Hilfe erhalten \
Sie unter {phone}.
Le guichet est ouvert de {morning} à {evening} ; pour toute aide, appelez le {phone}.

You have seat {seat} on train {train}, departing at {time}.
Sie haben den Platz {seat} im Zug {train}, Abfahrt um {time} Uhr.
Vous avez la place {seat} dans le train {train}, départ à {time}.

The bus to the castle runs every {minutes}, from {morning} to {evening}.
Der Bus zum Schloss fährt alle {minutes}, von {morning} bis {evening} Uhr.
Le bus pour le château passe toutes les {minutes}, de {morning} à {evening}.

The railway line is {distance} long and was opened in {year}.
Die Bahnstrecke ist {distance} lang und wurde {year} eröffnet.
La ligne de chemin de fer est longue de {distance} et a été inaugurée en {year}.

In {month}, {percent} of the trains were late, on average by {minutes}.
Im {month} waren {percent} der Züge verspätet, im Durchschnitt um {minutes}.
En {month}, {percent} des trains avaient du retard, en moyenne {minutes}.

Take bus {small} at {time}; the ride takes {minutes}.
Nehmen Sie den Bus {small} um {time} Uhr; die Fahrt dauert {minutes}.
Prenez le bus {small} à {time} ; le trajet dure {minutes}.

Departure: {full}, {time}; the trip lasts {days}.
Abreise: {full}, {time} Uhr; die Reise dauert {days}.
Départ : {full}, {time} ; le voyage dure {days}.

The ferry carries {words_f} cars and takes {duration} for {km}.
Die Fähre befördert {words_f} Autos und braucht {duration} für {km}.
Le ferry transporte {words_f} voitures et met {duration} pour {km}.

Flight {flight} to Oslo departs at {time} from gate {gate}.
Der Flug {flight} nach Oslo startet um {time} Uhr am Flugsteig {gate}.
Le vol {flight} pour Oslo part à {time} de la porte {gate}.

Boarding for flight {flight} begins in {minutes} at gate {gate}.
Der Einstieg für den Flug {flight} beginnt in {minutes} am Flugsteig {gate}.
L'embarquement du vol {flight} commence dans {minutes} à la porte {gate}.

Your suitcase weighs {weight}; each extra kilogram costs {price}.
Ihr Koffer wiegt {weight}; jedes weitere Kilogramm kostet {price}.
Votre valise pèse {weight} ; chaque kilogramme supplémentaire coûte {price}.

The flight from Lisbon lasts {duration} and covers {distance}.
Der Flug aus Lissabon dauert {duration} und führt über {distance}.
Le vol en provenance de Lisbonne dure {duration} et couvre {distance}.

Because of the storm, new departure time of flight {flight}: {appointment}.
Wegen des Sturms neue Abflugzeit des Flugs {flight}: {appointment}.
En raison de la tempête, nouvel horaire du vol {flight} : {appointment}.

We will land at {time} local time; the temperature on the ground is {celsius}.
Wir landen um {time} Uhr Ortszeit; die Temperatur am Boden beträgt {celsius}.
Nous atterrirons à {time}, heure locale ; la température au sol est de {celsius}.

Passengers in seats {seat1} and {seat2}, please go to gate {gate}.
Die Passagiere auf den Plätzen {seat1} und {seat2} werden zum Flugsteig {gate} gebeten.
Les passagers des sièges {seat1} et {seat2} sont priés de se rendre à la porte {gate}.

Booking {order}: flight {flight} on {medium} at {time}.
Buchung {order}: Flug {flight} am {medium} um {time} Uhr.
Réservation {order} : vol {flight} le {medium} à {time}.

Round-trip flight {route}: {price}, bookable until {date}.
Hin- und Rückflug {route}: {price}, buchbar bis zum {date}.
Vol aller-retour {route} : {price}, réservable jusqu'au {date}.

It is {km} from the airport to the center; a taxi takes {minutes} and costs about \
{price}.
Vom Flughafen ins Zentrum sind es {km}; ein Taxi braucht {minutes} und kostet etwa \
{price}.
De l'aéroport au centre, il y a {km} ; un taxi met {minutes} et coûte environ {price}.

In {month}, {millions} passengers used the airport, {percent} more than the year before.
Im {month} nutzten {millions} Passagiere den Flughafen, {percent} mehr als im Vorjahr.
En {month}, {millions} de passagers ont utilisé l'aéroport, soit {percent} de plus que \
l'année précédente.

I would like to book room {room} from {day1} to {day2}.
Ich möchte das Zimmer {room} vom {day1} bis zum {day2} buchen.
Je voudrais réserver la chambre {room} du {day1} au {day2}.

Room {room} costs {price} per night, with breakfast from {morning}.
Das Zimmer {room} kostet {price} pro Nacht, mit Frühstück ab {morning} Uhr.
La chambre {room} coûte {price} par nuit, avec petit-déjeuner à partir de {morning}.

Breakfast is served from {morning1} to {morning2} and costs {price}.
Das Frühstück wird von {morning1} bis {morning2} Uhr serviert und kostet {price}.
Le petit-déjeuner est servi de {morning1} à {morning2} et coûte {price}.

Could you please wake the guest in room {room} at {morning}?
Könnten Sie bitte den Gast in Zimmer {room} um {morning} Uhr wecken?
Pourriez-vous réveiller le client de la chambre {room} à {morning}, s'il vous plaît ?

The hotel has {words_f} rooms and was built in {year}.
Das Hotel hat {words_f} Zimmer und wurde {year} erbaut.
L'hôtel compte {words_f} chambres et a été construit en {year}.

The conference room measures {area} and has space for {words_f} people.
Der Konferenzraum ist {area} groß und bietet Platz für {words_f} Personen.
La salle de conférence mesure {area} et peut accueillir {words_f} personnes.

The receptionist speaks {languages}; you can reach her at extension {extension}.
Die Rezeptionistin spricht {languages}; Sie erreichen sie unter der Durchwahl \
{extension}.
La réceptionniste parle {languages} ; vous pouvez la joindre au poste {extension}.

Arrival on {medium1} after {time1}, departure on {medium2} before {time2}.
Anreise am {medium1} nach {time1} Uhr, Abreise am {medium2} vor {time2} Uhr.
Arrivée le {medium1} après {time1}, départ le {medium2} avant {time2}.

Our guests stayed {days} and paid {amount} in cash.
Unsere Gäste blieben {days} und zahlten {amount} in bar.
Nos clients sont restés {days} et ont payé {amount} en espèces.

The water in the pool is at {degrees}, and the pool closes at {evening}.
Das Wasser im Schwimmbad hat {degrees}, und das Bad schließt um {evening} Uhr.
L'eau de la piscine est à {degrees}, et la piscine ferme à {evening}.

Parking costs {price} per day; you have space number {house}.
Das Parken kostet {price} pro Tag; Sie haben den Stellplatz Nummer {house}.
Le stationnement coûte {price} par jour ; vous avez la place numéro {house}.

You can cancel booking {order} free of charge until {time} on {date}.
Sie können die Buchung {order} bis zum {date} um {time} Uhr kostenlos stornieren.
Vous pouvez annuler gratuitement la réservation {order} jusqu'au {date} à {time}.

Tomorrow it will be {celsius2} in Madrid and {celsius1} in Hamburg.
Morgen werden es {celsius2} in Madrid und {celsius1} in Hamburg.
Demain, il fera {celsius2} à Madrid et {celsius1} à Hambourg.

On {day}, the wind will reach {speed}, with temperatures around {celsius}.
Am {day} erreicht der Wind {speed}, bei Temperaturen um {celsius}.
Le {day}, le vent atteindra {speed}, avec des températures autour de {celsius}.

Between {time1} and {time2}, the air pressure rose from {pressure1} to {pressure2}.
Zwischen {time1} und {time2} Uhr stieg der Luftdruck von {pressure1} auf {pressure2}.
Entre {time1} et {time2}, la pression atmosphérique est passée de {pressure1} à \
{pressure2}.

In {month}, {millimeters} of rain fell, {percent} less than usual.
Im {month} fielen {millimeters} Regen, {percent} weniger als üblich.
En {month}, il est tombé {millimeters} de pluie, soit {percent} de moins que d'habitude.

On {day}, the sun rises at {morning} and sets at {evening}.
Am {day} geht die Sonne um {morning} Uhr auf und um {evening} Uhr unter.
Le {day}, le soleil se lève à {morning} et se couche à {evening}.

Hottest day of the year: {full}, {degrees} in the shade.
Heißester Tag des Jahres: {full}, {degrees} im Schatten.
Jour le plus chaud de l'année : {full}, {degrees} à l'ombre.

The humidity is {percent}; in the evening, the temperature drops to {celsius}.
Die Luftfeuchtigkeit liegt bei {percent}; am Abend sinkt die Temperatur auf {celsius}.
L'humidité est de {percent} ; le soir, la température descend à {celsius}.

At an altitude of {altitude}, the snow is {centimeters} deep.
Auf {altitude} Höhe liegt der Schnee {centimeters} hoch.
À {altitude} d'altitude, l'épaisseur de la neige est de {centimeters}.

Storm warning from {appointment}: gusts of up to {speed}, lows around {celsius}.
Sturmwarnung ab {appointment}: Böen bis {speed}, Tiefstwerte um {celsius}.
Avis de tempête à partir de {appointment} : rafales jusqu'à {speed}, minimales autour \
de {celsius}.

Between {time1} and {time2}, the river rose by {centimeters}.
Zwischen {time1} und {time2} Uhr stieg der Fluss um {centimeters}.
Entre {time1} et {time2}, la rivière est montée de {centimeters}.

The hike takes {duration}, is {km} long and climbs to an altitude of {altitude}.
Die Wanderung dauert {duration}, ist {km} lang und führt auf {altitude} Höhe.
La randonnée dure {duration}, fait {km} et monte jusqu'à {altitude} d'altitude.

The village has {thousands} inhabitants and lies at an altitude of {altitude}.
Das Dorf hat {thousands} Einwohner und liegt auf {altitude} Höhe.
Le village compte {thousands} habitants et se trouve à {altitude} d'altitude.

The country has {millions} inhabitants, of whom {percent} live in cities.
Das Land hat {millions} Einwohner, von denen {percent} in Städten leben.
Le pays compte {millions} d'habitants, dont {percent} vivent en ville.

The new bridge is {meters} long and cost {millions} euros.
Die neue Brücke ist {meters} lang und kostete {millions} Euro.
Le nouveau pont est long de {meters} et a coûté {millions} d'euros.

The cathedral is {meters} high and was completed in {year}.
Der Dom ist {meters} hoch und wurde {year} vollendet.
La cathédrale est haute de {meters} et a été achevée en {year}.

The tower has {words_f} steps and is open until {evening}.
Der Turm hat {words_f} Stufen und ist bis {evening} Uhr geöffnet.
La tour compte {words_f} marches et est ouverte jusqu'à {evening}.

The museum shows {words} paintings; admission costs {price}.
Das Museum zeigt {words} Gemälde; der Eintritt kostet {price}.
Le musée expose {words} tableaux ; l'entrée coûte {price}."""
